/** One step into a value: an object's attribute, a map's key, or a list's position. */
export type PathStep = { readonly attribute: string } | { readonly key: string } | { readonly index: number };

/** Where in a configuration, plan or state a value stands. */
export type Path = readonly PathStep[];

export const attributeStep = (path: Path, attribute: string): Path => [...path, { attribute }];
export const keyStep = (path: Path, key: string): Path => [...path, { key }];
export const indexStep = (path: Path, index: number): Path => [...path, { index }];

/** Makes a path from plain parts: names of attributes as strings, map keys as `[key]`, positions as numbers. */
export function pathOf(...parts: readonly (string | number | readonly [string])[]): Path {
  return parts.map((part) =>
    typeof part === "string" ? { attribute: part } : typeof part === "number" ? { index: part } : { key: part[0] },
  );
}

/** As a person writes it in HCL: `policies["mail"].rate.limit`. */
export function formatPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if ("attribute" in step) text += text === "" ? step.attribute : `.${step.attribute}`;
    else if ("key" in step) text += `[${JSON.stringify(step.key)}]`;
    else text += `[${step.index}]`;
  }
  return text;
}
