import type { Socket } from "node:net";
import { createServerCertificate } from "./certificate";
import type { GrpcServer } from "./grpc-server";
import type { ProviderHandler } from "./handler";
import { handshakeLine, type Launch, readLaunch, reattachConfig } from "./handshake";
import { type Listener, listen } from "./listener";
import { createLogger, type Logger, logLevel } from "./logger";

export { HandshakeError, launchedByTerraform } from "./handshake";

export interface ServeOptions {
  /**
   * Makes the provider. Called after Terraform has been told where to connect, so that loading it does not hold up the
   * start.
   */
  load(log: Logger): ProviderHandler;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  /** How long to wait for a first connection, in ms. Default 60,000. */
  readonly connectTimeoutMs?: number;
  /** How long after its last connection has closed a provider lives on, in ms. Default 500. */
  readonly idleTimeoutMs?: number;
}

export interface RunningPlugin {
  /** Resolves when everything is closed: Terraform asked for it, went away, or {@link stop} was called. */
  readonly ended: Promise<void>;
  /** Ends it: aborts the calls in progress, closes the provider, removes the socket. Safe to call more than once. */
  stop(reason: string): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 60_000;
const IDLE_TIMEOUT_MS = 500;
/** Terraform kills a provider 2 s after it has asked it to end. */
const CLOSE_TIMEOUT_MS = 1_400;
const CLIENT_GRACE_MS = 200;

/**
 * Serves a provider to the Terraform that started this process: listens, prints the handshake line, answers until
 * Terraform is done or gone.
 * @throws HandshakeError when this launch cannot be served.
 */
export async function serve(options: ServeOptions): Promise<RunningPlugin> {
  const launch = readLaunch(options.env);
  const certificate = createServerCertificate();
  const tls = { ...certificate, clientCertificatePem: launch.clientCertificatePem };
  const running = await start(options, launch, tls);
  options.stdout.write(handshakeLine(running.listener.address, certificate.der));
  running.warmUp();
  return running.plugin;
}

/**
 * Serves a provider that a developer runs, under a debugger for instance, in plain text on a socket that only this user
 * may enter; prints the setting with which Terraform attaches to it. It ends only by {@link RunningPlugin.stop}.
 */
export async function serveForDebugging(source: string, options: ServeOptions): Promise<RunningPlugin> {
  const running = await start(
    { ...options, connectTimeoutMs: Number.POSITIVE_INFINITY, idleTimeoutMs: Number.POSITIVE_INFINITY },
    { minPort: 10_000, maxPort: 25_000 },
    null,
  );
  const config = reattachConfig(source, running.listener.address, process.pid);
  options.stdout.write(`TF_REATTACH_PROVIDERS='${config}'\n`);
  running.warmUp();
  return running.plugin;
}

type Tls = { readonly clientCertificatePem: string; certificatePem: string; privateKeyPem: string };

async function start(
  options: ServeOptions,
  ports: Pick<Launch, "minPort" | "maxPort">,
  tls: Tls | null,
): Promise<{ listener: Listener; plugin: RunningPlugin; warmUp(): void }> {
  const log = createLogger(logLevel(options.env), (line) => options.stderr.write(line));
  let handler: ProviderHandler | undefined;
  let grpc: GrpcServer | undefined;
  let stopping: Promise<void> | undefined;
  let idleTimer: NodeJS.Timeout | undefined;
  let finish: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    finish = resolve;
  });

  const endAfter = (ms: number, reason: string) => {
    clearTimeout(idleTimer);
    if (Number.isFinite(ms)) idleTimer = setTimeout(() => void stop(reason), ms);
  };
  // The gRPC library and the provider itself are most of what there is to load, and the handshake needs neither.
  const server = (): GrpcServer => {
    if (grpc === undefined) {
      handler = options.load(log);
      const { createGrpcServer } = require("./grpc-server") as typeof import("./grpc-server");
      grpc = createGrpcServer({
        handler,
        log,
        tls,
        onShutdownRequest: () => setImmediate(() => void stop("Terraform asked the provider to end")),
      });
    }
    return grpc;
  };
  const listener = await listen({
    env: options.env,
    ...ports,
    onConnection: (socket: Socket) => {
      clearTimeout(idleTimer);
      if (stopping === undefined) server().serve(socket);
      else socket.destroy();
    },
    onIdle: () => {
      // Whoever asked is gone, so nobody will read the answers.
      grpc?.abortCalls("Terraform went away");
      if (stopping === undefined) endAfter(options.idleTimeoutMs ?? IDLE_TIMEOUT_MS, "the last connection closed");
    },
  });
  endAfter(options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, "nobody connected");

  const stop = (reason: string): Promise<void> => {
    stopping ??= (async () => {
      clearTimeout(idleTimer);
      log.debug("ending", { reason });
      grpc?.abortCalls(reason);
      const orderly = (async () => {
        await grpc?.idle();
        await handler?.close?.();
      })().catch((error: unknown) =>
        log.error("closing failed", { kind: error instanceof Error ? error.name : typeof error }),
      );
      await withinTime(orderly, CLOSE_TIMEOUT_MS);
      // The client that asked for the end reads its answer and leaves by itself.
      await listener.close(CLIENT_GRACE_MS);
      grpc?.close();
      finish();
    })();
    return stopping;
  };
  return { listener, plugin: { ended, stop }, warmUp: () => setImmediate(() => stopping ?? server()) };
}

/** Waits for work, but no longer than that. */
async function withinTime(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, limit]);
  clearTimeout(timer);
}
