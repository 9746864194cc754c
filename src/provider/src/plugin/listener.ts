import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Address } from "./handshake";

/** A socket's path may have about 104 bytes on the systems that allow least. */
const MAX_SOCKET_PATH = 100;

export interface Listener {
  readonly address: Address;
  /** Stops listening, gives what is connected a moment to leave, ends it, and removes the socket and its folder. */
  close(graceMs: number): Promise<void>;
}

export interface ListenOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly minPort: number;
  readonly maxPort: number;
  onConnection(socket: Socket): void;
  /** The last open connection has closed. */
  onIdle(): void;
}

/** Listens on a unix socket in a private folder, or on the loopback address where there can be none. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    // A client that vanishes is no error of ours.
    socket.on("error", () => {});
    socket.on("close", () => {
      open.delete(socket);
      if (open.size === 0) options.onIdle();
    });
    options.onConnection(socket);
  });
  const folder = process.platform === "win32" ? null : await socketFolder(options.env);
  let address: Address;
  if (folder === null) {
    address = { network: "tcp", address: `127.0.0.1:${await bindPort(server, options.minPort, options.maxPort)}` };
  } else {
    const path = join(folder, "plugin.sock");
    await bind(server, { path });
    address = { network: "unix", address: path };
  }
  return {
    address,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const timer = setTimeout(() => {
        for (const socket of open) socket.destroy();
      }, graceMs);
      await closed;
      clearTimeout(timer);
      if (folder !== null) await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A new folder that only this user may enter; null where none can be made, or every path would be too long for a socket. */
async function socketFolder(env: NodeJS.ProcessEnv): Promise<string | null> {
  for (const parent of [env.PLUGIN_UNIX_SOCKET_DIR || tmpdir(), "/tmp"]) {
    if (Buffer.byteLength(join(parent, "plugin-XXXXXX", "plugin.sock")) > MAX_SOCKET_PATH) continue;
    try {
      return await mkdtemp(join(parent, "plugin-"));
    } catch {
      // It does not exist, is full or read-only: the loopback address, behind the same mutual TLS, needs no file.
    }
  }
  return null;
}

async function bindPort(server: Server, min: number, max: number): Promise<number> {
  for (let port = min; port <= max; port += 1) {
    try {
      await bind(server, { host: "127.0.0.1", port });
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    }
  }
  throw new Error(`no free port from ${min} to ${max} on 127.0.0.1`);
}

function bind(server: Server, where: { path: string } | { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(where, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
