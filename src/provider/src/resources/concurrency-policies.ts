import { concurrency } from "../policies/concurrency";
import { policySet } from "./policy-set";

export const concurrencyPolicies = policySet(
  concurrency,
  "workhorse_concurrency_policies",
  "The concurrency caps of a namespace's queues: how many of their jobs may be active at once, over all workers together.",
);
