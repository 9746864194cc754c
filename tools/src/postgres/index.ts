export { type PostgresOptions, type PostgresServer, startPostgres } from "./server";
export { DEFAULT_POSTGRES_MAJOR, POSTGRES_BUILDS, parsePostgresMajor } from "./versions";
