export * from "./postgres";
