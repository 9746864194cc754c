import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A way to a socket that can be cut. */
export async function cuttableProxy(target: string): Promise<{ address: string; cut(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "plugin-test-"));
  const address = join(folder, "proxy.sock");
  const sockets: Socket[] = [];
  const server = createServer((near) => {
    const far = connect(target);
    sockets.push(near, far);
    for (const socket of [near, far]) socket.on("error", () => {});
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(address, resolve));
  return {
    address,
    async cut() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
      await rm(folder, { recursive: true });
    },
  };
}
