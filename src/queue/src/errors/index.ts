export * from "./classes";
export { type Subject, translateError } from "./translate";
