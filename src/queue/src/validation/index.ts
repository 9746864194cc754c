export * from "./checks";
export { grouped, kindOf, shown } from "./describe";
export { nearest } from "./nearest";
