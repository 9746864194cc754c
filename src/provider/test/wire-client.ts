import { X509Certificate } from "node:crypto";
import { type Client, credentials, makeClientConstructor, type ServiceError } from "@grpc/grpc-js";
import { createServerCertificate, type ServerCertificate } from "../src/plugin/certificate";
import { GRPCControllerService, GRPCStdioService } from "../src/plugin/generated/go_plugin";
import { HealthService } from "../src/plugin/generated/health";
import { ProviderService } from "../src/plugin/generated/tfplugin6";
import type { Request, Response, Rpc } from "../src/plugin/handler";

/** What Terraform puts into a provider's environment. */
export function launchEnvironment(client: ServerCertificate, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return {
    TF_PLUGIN_MAGIC_COOKIE: "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
    PLUGIN_PROTOCOL_VERSIONS: "5,6",
    PLUGIN_MIN_PORT: "10000",
    PLUGIN_MAX_PORT: "25000",
    PLUGIN_CLIENT_CERT: client.certificatePem,
    ...more,
  };
}

/** The fields of a handshake line. */
export function readHandshake(line: string): { network: string; address: string; certificatePem: string } {
  const match = /^1\|6\|(unix|tcp)\|([^|]+)\|grpc\|([A-Za-z0-9+/]+)\n$/.exec(line);
  if (match === null) throw new Error(`no handshake line: ${JSON.stringify(line)}`);
  const certificate = new X509Certificate(Buffer.from(match[3]!, "base64"));
  return { network: match[1]!, address: match[2]!, certificatePem: certificate.toString() };
}

interface Cancellable {
  cancel(): void;
  end(): void;
}

/** A client of the plugin services, as Terraform is one. */
export class WireClient {
  readonly #clients: Record<string, Client>;

  private constructor(target: string, channel: ReturnType<typeof credentials.createSsl>) {
    const options = {
      "grpc.ssl_target_name_override": "localhost",
      "grpc.default_authority": "localhost",
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
      // Each client has a connection of its own, and one that fails is told at once.
      "grpc.use_local_subchannel_pool": 1,
    };
    const services = {
      provider: ProviderService,
      controller: GRPCControllerService,
      stdio: GRPCStdioService,
      health: HealthService,
    };
    this.#clients = Object.fromEntries(
      Object.entries(services).map(([name, service]) => [
        name,
        new (makeClientConstructor(service, name))(target, channel, options) as unknown as Client,
      ]),
    );
  }

  static connect(handshake: ReturnType<typeof readHandshake>, client: ServerCertificate | null): WireClient {
    const root = Buffer.from(handshake.certificatePem);
    const channel =
      client === null
        ? credentials.createSsl(root)
        : credentials.createSsl(root, Buffer.from(client.privateKeyPem), Buffer.from(client.certificatePem));
    return new WireClient(`${handshake.network === "unix" ? "unix:" : ""}${handshake.address}`, channel);
  }

  static connectPlain(address: string): WireClient {
    return new WireClient(`unix:${address}`, credentials.createInsecure());
  }

  /** A unary call of the provider. */
  provider<K extends Rpc>(rpc: K, request: Partial<Request<K>> = {}, cancel?: AbortSignal): Promise<Response<K>> {
    const whole = { ...(ProviderService[rpc].requestDeserialize(Buffer.alloc(0)) as object), ...request };
    return this.#unary("provider", rpc, whole, cancel) as Promise<Response<K>>;
  }

  shutdown(): Promise<unknown> {
    return this.#unary("controller", "shutdown", {});
  }

  health(service: string): Promise<unknown> {
    return this.#unary("health", "check", { service });
  }

  /** A streaming call of the provider, whole. */
  async stream(rpc: Rpc): Promise<unknown[]> {
    const method = this.#method("provider", rpc) as (request: unknown) => AsyncIterable<unknown>;
    const messages: unknown[] = [];
    const request = ProviderService[rpc].requestDeserialize(Buffer.alloc(0));
    for await (const message of method(request)) messages.push(message);
    return messages;
  }

  close(): void {
    for (const client of Object.values(this.#clients)) client.close();
  }

  #method(service: string, rpc: string): (...args: unknown[]) => unknown {
    const client = this.#clients[service] as unknown as Record<string, (...args: unknown[]) => unknown>;
    return client[rpc]!.bind(client);
  }

  #unary(service: string, rpc: string, request: unknown, cancel?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, response: unknown) => (error ? reject(error) : resolve(response));
      const streaming = rpc === "writeStateBytes";
      const call = this.#method(service, rpc)(...(streaming ? [done] : [request, done])) as Cancellable;
      if (streaming) call.end();
      cancel?.addEventListener("abort", () => call.cancel());
    });
  }
}

export const newClientCertificate = (): ServerCertificate => createServerCertificate();
