terraform {
  required_version = ">= 1.8"

  required_providers {
    workhorse = {
      source  = "workhorse/workhorse"
      version = "~> 0.1"
    }
  }
}

# The database comes from the environment: WORKHORSE_DATABASE_URL, DATABASE_URL, or PGHOST and its kin.
provider "workhorse" {}

# Installs the tables and functions, and upgrades them with the provider. On destroy they stay.
resource "workhorse_schema" "this" {}

# How fast jobs may start.
resource "workhorse_rate_limit_policies" "billing" {
  namespace = "billing"

  policies = {
    # The payment provider accepts 60 calls a minute. No customer may use up more than 5 of them.
    "provider-api" = {
      rate    = { limit = 60, interval_ms = 60000, burst = 10 }
      per_key = { limit = 5, interval_ms = 60000, burst = 2 }
    }
  }

  depends_on = [workhorse_schema.this]
}

# How many jobs may run at once.
resource "workhorse_concurrency_policies" "billing" {
  namespace = "billing"

  policies = {
    # The mail server takes 4 connections, and one customer's mails go out one after the other.
    "mail" = { max_active = 4, max_active_per_key = 1 }
  }

  depends_on = [workhorse_schema.this]
}

output "limits" {
  description = "What each queue is held to."
  value = merge(
    {
      for queue, policy in workhorse_rate_limit_policies.billing.policies :
      queue => "${policy.rate.limit} starts per ${policy.rate.interval_ms / 1000} s"
    },
    {
      for queue, policy in workhorse_concurrency_policies.billing.policies :
      queue => "${policy.max_active} at once"
    },
  )
}
