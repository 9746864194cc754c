import { rateLimits } from "../policies/rate-limits";
import { policySet } from "./policy-set";

export const rateLimitPolicies = policySet(
  rateLimits,
  "workhorse_rate_limit_policies",
  "The rate limits of a namespace's queues: how fast their jobs may start, over all workers together. PostgreSQL keeps " +
    "the token buckets, so a change takes effect with the next claim.",
);
