export {
  drainGroup,
  isGroupRunning,
  isRunning,
  type ProcessOptions,
  type ProcessResult,
  runProcess,
  signalGroup,
} from "./run";
export { startWatchdog, type Watchdog } from "./watchdog";
