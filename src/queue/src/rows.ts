/** One row as a driver gives it: columns by name. */
export type Row = Readonly<Record<string, unknown>>;

/**
 * Readers of columns. They take what pg gives by default as well as what an application's own type parsers may make of it
 * (bigint as number or BigInt, timestamps as text).
 */
export const column = {
  text: (row: Row, name: string): string => String(present(row, name)),
  textOrNull: (row: Row, name: string): string | null => (absent(row, name) ? null : String(row[name])),
  number: (row: Row, name: string): number => Number(present(row, name)),
  numberOrNull: (row: Row, name: string): number | null => (absent(row, name) ? null : Number(row[name])),
  boolean: (row: Row, name: string): boolean => present(row, name) === true,
  date: (row: Row, name: string): Date => toDate(present(row, name)),
  dateOrNull: (row: Row, name: string): Date | null => (absent(row, name) ? null : toDate(row[name])),
  /** A jsonb column that was selected as text. */
  json: (row: Row, name: string): unknown => (absent(row, name) ? null : JSON.parse(String(row[name]))),
} as const;

function absent(row: Row, name: string): boolean {
  return row[name] === null || row[name] === undefined;
}

function present(row: Row, name: string): unknown {
  const value = row[name];
  if (value === null || value === undefined) throw new Error(`the database returned no value in column ${name}`);
  return value;
}

function toDate(value: unknown): Date {
  return value instanceof Date ? value : new Date(String(value));
}
