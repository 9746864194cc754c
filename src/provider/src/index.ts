export { workhorseProvider } from "./provider";
export { providerHandler } from "./server/handler";
