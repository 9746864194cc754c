export * from "./postgres";
export * from "./process";
export * from "./terraform";
