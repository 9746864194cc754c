/** What every error of this package has. Errors are told apart by class or by `code`, never by their text. */
export class WorkhorseError extends Error {
  override readonly name: string = "WorkhorseError";

  /**
   * @param code the SQLSTATE that PostgreSQL raises for the same: `WH001` ownership, `WH002` definition or argument, `WH003`
   *   schema, `WH004` lease lost, `0A000` isolation level, `42501` rights. Errors found before anything was sent have the
   *   same codes.
   */
  constructor(
    readonly code: string,
    message: string,
    options: { cause?: unknown } = {},
  ) {
    super(message, options);
  }
}

/** A queue's policy belongs to another namespace. Nothing was written. */
export class OwnershipConflictError extends WorkhorseError {
  override readonly name = "OwnershipConflictError";
  /** The namespace that wanted the queue; undefined if the database did not say. */
  readonly namespace: string | undefined;
  /** The queue at fault; undefined if the database did not say. */
  readonly queue: string | undefined;
  /** The namespace that has the queue; undefined if the database did not say. */
  readonly owner: string | undefined;

  constructor(
    message: string,
    facts: { namespace?: string | undefined; queue?: string | undefined; owner?: string | undefined },
    options: { cause?: unknown } = {},
  ) {
    super("WH001", message, options);
    this.namespace = facts.namespace;
    this.queue = facts.queue;
    this.owner = facts.owner;
  }
}

/** Where something invalid stood. All are undefined if only the database found it and did not say. */
export interface Fault {
  /** The attribute at fault, such as `definitions[2].rate.limit` or `options.priority`. */
  readonly path?: string | undefined;
  /** What stood there, shortened; of payloads only its kind. */
  readonly got?: string | undefined;
  /** What may stand there. */
  readonly accepted?: string | undefined;
  /** The element of the list handed in, from 0. */
  readonly index?: number | undefined;
  readonly namespace?: string | undefined;
  readonly queue?: string | undefined;
}

/** An argument or option that is not accepted. Nothing was written. */
export class InvalidArgumentError extends WorkhorseError {
  override readonly name: string = "InvalidArgumentError";
  /** The attribute at fault, such as `definitions[2].rate.limit` or `options.priority`. */
  readonly path: string | undefined;
  /** What stood there, shortened; of payloads only its kind. */
  readonly got: string | undefined;
  /** What may stand there. */
  readonly accepted: string | undefined;
  /** The element of the list handed in, from 0; undefined if it was no list. */
  readonly index: number | undefined;

  constructor(message: string, fault: Fault, options: { cause?: unknown } = {}) {
    super("WH002", message, options);
    this.path = fault.path;
    this.got = fault.got;
    this.accepted = fault.accepted;
    this.index = fault.index;
  }
}

/** A policy definition, or an argument beside it, that is not accepted. Nothing was written. */
export class InvalidDefinitionError extends InvalidArgumentError {
  override readonly name = "InvalidDefinitionError";
  readonly namespace: string | undefined;
  /** The queue of the definition, where it has a readable one. */
  readonly queue: string | undefined;

  constructor(message: string, fault: Fault, options: { cause?: unknown } = {}) {
    super(message, fault, options);
    this.namespace = fault.namespace;
    this.queue = fault.queue;
  }
}

/** A job (its type, payload, options or result) that is not accepted. Nothing was written. */
export class InvalidJobError extends InvalidArgumentError {
  override readonly name = "InvalidJobError";
}

/**
 * The job is no longer held: its lease expired, another worker has it, it was cancelled, or it is finished. What the late
 * holder wanted was not done.
 */
export class LeaseLostError extends WorkhorseError {
  override readonly name = "LeaseLostError";

  constructor(
    /** The job's id; undefined if the database did not say. */
    readonly jobId: string | undefined,
    message: string,
    options: { cause?: unknown } = {},
  ) {
    super("WH004", message, options);
  }
}

/** Claims and syncs work in READ COMMITTED only; the transaction, or the session's default, is another level. */
export class IsolationLevelError extends WorkhorseError {
  override readonly name = "IsolationLevelError";

  constructor(message: string, options: { cause?: unknown } = {}) {
    super("0A000", message, options);
  }
}

/** The role that is logged in may not do this. */
export class PermissionError extends WorkhorseError {
  override readonly name = "PermissionError";

  constructor(message: string, options: { cause?: unknown } = {}) {
    super("42501", message, options);
  }
}

/** The database refused without saying what kind of refusal it is (a function not of this package's SQL). */
export class RefusedError extends WorkhorseError {
  override readonly name = "RefusedError";

  constructor(message: string, options: { cause?: unknown } = {}) {
    super("P0001", message, options);
  }
}
