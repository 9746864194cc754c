export { type HammerOptions, type HammerReport, hammer } from "./hammer";
export { type Scenario, scenarios } from "./scenarios";
