import type { Database } from "./connection/database";
import { type ClientContext, DiagnosticError } from "./framework";
import type { RunHistory } from "./policies/run-history";

/** What resources and data sources work with. */
export interface Client {
  /** Undefined while parts of the provider's configuration are not yet known: a plan then goes on without the database. */
  readonly database: Database | undefined;
  readonly history: RunHistory;
}

/** The database, for work that cannot go on without. @throws DiagnosticError */
export function requireDatabase({ client }: ClientContext<Client>): Database {
  if (client.database !== undefined) return client.database;
  throw DiagnosticError.of(
    "The provider's configuration is not known yet",
    "It holds values that are only known after another resource is applied. Apply that one first (-target), then this.",
  );
}
