import { Dynamic, type Value } from "../framework";
import type { Attributes } from "../framework/schema/attributes";
import { asObject, nestedObjects } from "../framework/schema/walk";
import { Unknown } from "../framework/values/unknown";

const MARK = "(sensitive value)";
/** Striking out shorter texts would tell what they are, and make everything else unreadable. */
const SHORTEST = 3;

/** Strikes secrets from whatever a provider says: a second lock, should a message ever quote one. */
export class Redactor {
  readonly #secrets = new Set<string>();

  add(secret: string): void {
    if (secret.length < SHORTEST) return;
    this.#secrets.add(secret);
    // As it stands inside a URL.
    this.#secrets.add(encodeURIComponent(secret));
  }

  /** Adds every text below the sensitive attributes of a configuration. */
  addSensitive(attributes: Attributes, config: Value): void {
    const object = asObject(config);
    if (object === undefined) return;
    for (const [name, attribute] of Object.entries(attributes)) {
      const value = object[name] ?? null;
      if (attribute.sensitive) this.#addAll(value);
      for (const [item] of nestedObjects(attribute, value, [])) this.addSensitive(attribute.nested!.attributes, item);
    }
  }

  redact(text: string): string {
    let result = text;
    // Longest first: one secret may be part of another.
    for (const secret of [...this.#secrets].sort((a, b) => b.length - a.length))
      result = result.replaceAll(secret, MARK);
    return result;
  }

  #addAll(value: Value): void {
    if (typeof value === "string") this.add(value);
    else if (value === null || typeof value !== "object" || value instanceof Unknown) return;
    else if (value instanceof Dynamic) this.#addAll(value.value);
    else if (Array.isArray(value) || value instanceof Map)
      for (const item of value.values()) this.#addAll(item as Value);
    else for (const item of Object.values(value)) this.#addAll(item as Value);
  }
}
