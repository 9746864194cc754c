import type { Socket } from "node:net";
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { notOffered, unexpected } from "./failures";
import { GRPCControllerService, GRPCStdioService } from "./generated/go_plugin";
import { HealthCheckResponse_ServingStatus, HealthService } from "./generated/health";
import { ProviderService } from "./generated/tfplugin6";
import { type Call, type ProviderHandler, type Rpc, response } from "./handler";
import type { Logger } from "./logger";

export interface GrpcServerOptions {
  readonly handler: ProviderHandler;
  readonly log: Logger;
  /** Null: plain text, for a provider that a developer attaches Terraform to. */
  readonly tls: { readonly clientCertificatePem: string; certificatePem: string; privateKeyPem: string } | null;
  /** Terraform asks the process to end. */
  onShutdownRequest(): void;
}

export interface GrpcServer {
  /** Serves a connection that was accepted elsewhere. */
  serve(socket: Socket): void;
  /** Aborts the signal of every call in progress. */
  abortCalls(reason: string): void;
  /** Resolves when no call is in progress. */
  idle(): Promise<void>;
  close(): void;
}

/** The gRPC side of a provider. Messages may have any size, as Terraform's may. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { handler, log, tls } = options;
  const server = new Server({ "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 });
  const calls = new CallRegistry();

  const implementation: Record<string, unknown> = {};
  for (const rpc of Object.keys(ProviderService) as Rpc[]) implementation[rpc] = implement(rpc, handler, calls, log);
  implementation.stopProvider = (_: unknown, reply: sendUnaryData<unknown>) => {
    calls.abort("Terraform asked the provider to stop");
    reply(null, serialize("stopProvider", response("stopProvider")));
  };
  server.addService(definition, implementation as never);
  server.addService(GRPCControllerService, {
    shutdown: (_: unknown, reply: sendUnaryData<object>) => {
      reply(null, {});
      options.onShutdownRequest();
    },
  } as never);
  // Nothing is ever streamed: logs go to stderr. The stream stays open as long as the client wants it.
  server.addService(GRPCStdioService, { streamStdio: () => {} } as never);
  server.addService(HealthService, {
    check: ({ request }: ServerUnaryCall<{ service: string }, object>, reply: sendUnaryData<object>) => {
      if (request.service === "" || request.service === "plugin") {
        reply(null, { status: HealthCheckResponse_ServingStatus.SERVING });
      } else {
        reply({ code: status.NOT_FOUND, details: "unknown service" });
      }
    },
    watch: (call: { emit(event: "error", error: object): void }) =>
      call.emit("error", { code: status.UNIMPLEMENTED, details: "watching is not offered" }),
  } as never);

  const injector = server.createConnectionInjector(
    tls === null
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(
          Buffer.from(tls.clientCertificatePem),
          [{ cert_chain: Buffer.from(tls.certificatePem), private_key: Buffer.from(tls.privateKeyPem) }],
          true,
        ),
  );
  return {
    serve: (socket) => injector.injectConnection(socket),
    abortCalls: (reason) => calls.abort(reason),
    idle: () => calls.idle(),
    close: () => {
      injector.destroy();
      server.forceShutdown();
    },
  };
}

/** The calls in progress. */
class CallRegistry {
  readonly #running = new Set<AbortController>();
  readonly #waiting = new Set<() => void>();

  start(): AbortController {
    const controller = new AbortController();
    this.#running.add(controller);
    return controller;
  }

  end(controller: AbortController): void {
    this.#running.delete(controller);
    if (this.#running.size > 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  abort(reason: string): void {
    for (const controller of this.#running) controller.abort(new Error(reason));
  }

  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}

/**
 * The service's definition with responses already in bytes: they are written where a failure to do so can still be
 * answered as one.
 */
const definition = Object.fromEntries(
  Object.entries(ProviderService).map(([rpc, method]) => [
    rpc,
    { ...method, responseSerialize: (bytes: Buffer) => bytes },
  ]),
) as unknown as ServiceDefinition;

/** The parts of a server call of any kind that are used here. */
interface AnyCall extends AsyncIterable<unknown> {
  readonly request: unknown;
  readonly cancelled: boolean;
  on(event: "cancelled", listener: () => void): void;
  once(event: "drain" | "cancelled", listener: () => void): void;
  write(message: unknown): boolean;
  end(): void;
}

type AnyHandler = (input: unknown, call: Call) => Promise<unknown> & AsyncIterable<unknown>;

function implement(rpc: Rpc, handler: ProviderHandler, calls: CallRegistry, log: Logger): unknown {
  const run = (rpc === "stopProvider" ? undefined : handler[rpc]) as AnyHandler | undefined;
  const { requestStream, responseStream } = ProviderService[rpc];

  const within = async (call: AnyCall, work: (input: unknown, context: Call) => Promise<void>) => {
    const controller = calls.start();
    call.on("cancelled", () => controller.abort(new Error("Terraform cancelled the call")));
    const started = performance.now();
    log.trace("call started", { rpc });
    try {
      await work(requestStream ? call : call.request, { signal: controller.signal, log });
    } finally {
      calls.end(controller);
      log.trace("call ended", { rpc, ms: Math.round(performance.now() - started) });
    }
  };
  const failed = (error: unknown) => {
    // Where it broke, without the exception's own text, which may hold anything.
    const stack = error instanceof Error ? (error.stack ?? "").split("\n    at ").slice(1).join("; ") : "";
    log.error("exception in a handler", { rpc, kind: error instanceof Error ? error.name : typeof error, stack });
    return unexpected(rpc, error);
  };

  if (responseStream) {
    return (call: AnyCall) =>
      within(call, async (input, context) => {
        try {
          if (run === undefined) call.write(serialize(rpc, notOffered(rpc)));
          else {
            for await (const message of run.call(handler, input, context)) {
              if (call.cancelled) break;
              if (!call.write(serialize(rpc, message))) await drained(call);
            }
          }
        } catch (error) {
          call.write(serialize(rpc, failed(error)));
        }
        call.end();
      });
  }
  return (call: AnyCall, reply: sendUnaryData<unknown>) =>
    within(call, async (input, context) => {
      let answer: Buffer;
      try {
        answer = serialize(rpc, run === undefined ? notOffered(rpc) : await run.call(handler, input, context));
      } catch (error) {
        answer = serialize(rpc, failed(error));
      }
      reply(null, answer);
    });
}

function serialize(rpc: Rpc, message: unknown): Buffer {
  return (ProviderService[rpc].responseSerialize as (message: unknown) => Buffer)(message);
}

function drained(call: AnyCall): Promise<void> {
  return new Promise((resolve) => {
    call.once("drain", resolve);
    call.once("cancelled", resolve);
  });
}
