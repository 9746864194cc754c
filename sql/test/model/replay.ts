import { expect } from "@jest/globals";
import type { Client } from "pg";
import { type ModelJob, ReferenceQueue } from "./reference";
import type { HolderStep, NewJob, Step } from "./steps";

/** Puts the database's clock under the test's control. Only the owner of the schema can. */
export async function controlClock(client: Client): Promise<void> {
  await client.query(`
    CREATE TABLE IF NOT EXISTS public.test_clock (at timestamptz NOT NULL);
    CREATE OR REPLACE FUNCTION workhorse.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT coalesce((SELECT at FROM public.test_clock), clock_timestamp()) $$;`);
}

const startUs = 1_800_000_000_000_000n;

interface ClaimRow {
  id: string | null;
  fence_token: string;
  next_us: string | null;
  wait_ms: string | null;
  reason: string | null;
}

/** Replays one history on a queue of PostgreSQL and on the reference, and expects the same of both after each step. */
export class Replay {
  private nowUs = startUs;
  private readonly model = new ReferenceQueue();
  private readonly order: ModelJob[] = [];
  private open: { job: NewJob; id: bigint; sinceUs: bigint }[] | null = null;

  constructor(
    private readonly client: Client,
    /** A second connection, for transactions that stay open. */
    private readonly other: Client,
    private readonly queue: string,
  ) {}

  async run(history: readonly Step[]): Promise<void> {
    await this.client.query("TRUNCATE public.test_clock");
    await this.client.query("INSERT INTO public.test_clock SELECT 'epoch'::timestamptz");
    await this.setClock();
    try {
      for (const step of history) await this.step(step);
    } finally {
      if (this.open) await this.other.query("ROLLBACK");
      // recover, promote and sweep see every queue: the next history starts in an empty database.
      await this.client.query("TRUNCATE workhorse.job, workhorse.lane, workhorse.queue_admission, workhorse.back_off");
    }
  }

  private async setClock(): Promise<void> {
    await this.client.query("UPDATE public.test_clock SET at = workhorse.from_us($1)", [this.nowUs]);
  }

  private async step(step: Step): Promise<void> {
    switch (step.do) {
      case "advance":
        this.nowUs += BigInt(step.us);
        return this.setClock();
      case "enqueue":
        return this.enqueue(step.jobs, step.how);
      case "finish open":
        return this.finishOpen(step.how);
      case "claim":
        return this.claim(step.most, step.leaseMs, step.rollBack);
      case "complete":
      case "heartbeat":
      case "fail":
      case "release":
        return this.holderDoes(step);
      case "cancel":
        return this.cancel(step.job);
      case "recover":
        return this.recover();
      case "promote":
        await this.client.query("SELECT workhorse.promote_v1(1000)");
        for (const job of this.order) {
          if (job.state === "scheduled" && job.runAtUs <= this.nowUs) job.state = "ready";
        }
        return;
      case "sweep":
        await this.client.query("UPDATE workhorse.sweep_cursor SET queue_name = left($1, -1)", [this.queue]);
        await this.client.query("SELECT workhorse.sweep_v1(1000)");
        return;
      case "forget":
        // What a copy into another cluster looks like.
        await this.client.query("UPDATE workhorse.queue_admission SET system_identifier = 0 WHERE queue_name = $1", [
          this.queue,
        ]);
        return;
      case "rate": {
        const definition = { queue: this.queue, rate: step.rate, perKey: step.perKey };
        await this.client.query("SELECT workhorse.sync_rate_limit_policies_v1($1, $2)", [
          this.queue,
          JSON.stringify(step.rate ? [definition] : []),
        ]);
        return this.model.setRate(step.rate, step.perKey, this.nowUs);
      }
      case "caps":
        await this.client.query("SELECT workhorse.sync_concurrency_policies_v1($1, $2)", [
          this.queue,
          JSON.stringify(step.caps ? [{ queue: this.queue, ...step.caps }] : []),
        ]);
        return this.model.setCaps(step.caps);
      case "back off":
        await this.client.query("SELECT workhorse.back_off_v1($1, $2, $3)", [this.queue, step.key, step.forMs]);
        return this.model.backOff(step.key, step.forMs === 0 ? null : this.nowUs + BigInt(step.forMs) * 1000n);
    }
  }

  private async enqueue(jobs: readonly NewJob[], how: "plain" | "open"): Promise<void> {
    const inOpen = how === "open";
    const client = inOpen ? this.other : this.client;
    if (inOpen && !this.open) {
      await this.other.query("BEGIN");
      this.open = [];
    }
    const { rows } = await client.query("SELECT workhorse.enqueue_v1($1) AS id", [
      JSON.stringify(
        jobs.map(({ key, priority, delayMs }) => ({
          type: "t",
          queue: this.queue,
          concurrencyKey: key,
          priority,
          delayMs,
          // Told exactly: the other rules have a chance in them.
          retryPolicy: { kind: "fixed", delayMs: 0 },
        })),
      ),
    ]);
    jobs.forEach((job, i) => {
      const id = BigInt(rows[i].id);
      if (inOpen) this.open!.push({ job, id, sinceUs: this.nowUs });
      else this.add(job, id, this.nowUs);
    });
  }

  private add(job: NewJob, id: bigint, sinceUs: bigint): void {
    const added: ModelJob = {
      id,
      key: job.key,
      priority: job.priority,
      state: job.delayMs > 0 ? "scheduled" : "ready",
      runAtUs: sinceUs + BigInt(job.delayMs) * 1000n,
      leaseUs: 0n,
      fence: 0n,
    };
    this.model.jobs.set(id, added);
    this.order.push(added);
  }

  private async finishOpen(how: "commit" | "rollback"): Promise<void> {
    if (!this.open) return;
    await this.other.query(how);
    if (how === "commit") for (const { job, id, sinceUs } of this.open) this.add(job, id, sinceUs);
    this.open = null;
  }

  private async claim(most: number, leaseMs: number, rollBack: boolean): Promise<void> {
    if (rollBack) await this.client.query("BEGIN");
    const { rows } = await this.client.query<ClaimRow>(
      `SELECT id, fence_token, workhorse.to_us(next_eligible_at) AS next_us, wait_ms, reason
       FROM workhorse.claim_v1($1, 'w', $2, $3)`,
      [this.queue, most, leaseMs],
    );
    if (rollBack) {
      await this.client.query("ROLLBACK");
      return;
    }
    const expected = this.model.claim(most, leaseMs, this.nowUs);
    const started = rows.filter((row) => row.id !== null);
    expect(started.map((row) => row.id)).toEqual(expected.ids.map(String));
    expect(started.map((row) => row.fence_token)).toEqual(
      expected.ids.map((id) => String(this.model.jobs.get(id)!.fence)),
    );
    const answers = rows.filter((row) => row.id === null);
    if (!expected.answer) {
      expect(answers).toEqual([]);
      return;
    }
    const { nextUs, reasons } = expected.answer;
    expect(answers).toHaveLength(1);
    expect(answers[0]!.next_us).toEqual(nextUs === null ? null : String(nextUs));
    expect(answers[0]!.wait_ms).toEqual(nextUs === null ? null : String((nextUs - this.nowUs + 999n) / 1000n));
    expect([...reasons]).toContain(answers[0]!.reason);
  }

  private pick(number: number): ModelJob | undefined {
    return this.order.length === 0 ? undefined : this.order[number % this.order.length];
  }

  private async holderDoes(step: HolderStep): Promise<void> {
    const job = this.pick(step.job);
    if (!job) return;
    const holds = job.state === "active" && job.leaseUs > this.nowUs;
    const delayMs = "delayMs" in step ? step.delayMs : 0;
    const calls: Record<HolderStep["do"], [string, unknown[]]> = {
      complete: ["SELECT workhorse.complete_v1($1, $2)", []],
      heartbeat: ["SELECT workhorse.heartbeat_v1(ARRAY[$1::bigint], ARRAY[$2::bigint], 45000) AS lost", []],
      fail: ["SELECT * FROM workhorse.fail_v1($1, $2, NULL, $3)", [delayMs]],
      release: ["SELECT workhorse.release_v1($1, $2, $3)", [delayMs]],
    };
    const [text, more] = calls[step.do];
    const outcome = await this.client.query(text, [job.id, job.fence, ...more]).catch((error) => error);
    if (step.do === "heartbeat") {
      expect(outcome.rows).toEqual(holds ? [] : [{ lost: String(job.id) }]);
      if (holds) job.leaseUs = this.nowUs + 45_000_000n;
      return;
    }
    expect(outcome.code).toBe(holds ? undefined : "WH004");
    if (!holds) return;
    if (step.do === "complete") job.state = "done";
    else this.comeBack(job, delayMs);
  }

  private comeBack(job: ModelJob, delayMs: number): void {
    job.state = delayMs > 0 ? "scheduled" : "ready";
    job.runAtUs = this.nowUs + BigInt(delayMs) * 1000n;
  }

  private async cancel(number: number): Promise<void> {
    const job = this.pick(number);
    if (!job) return;
    const { rows } = await this.client.query("SELECT workhorse.cancel_v1($1) AS was", [job.id]);
    expect(rows).toEqual([{ was: job.state === "done" ? null : job.state }]);
    job.state = "done";
  }

  private async recover(): Promise<void> {
    const { rows } = await this.client.query(
      "SELECT job_id FROM workhorse.recover_expired_v1(1000) WHERE queue_name = $1 ORDER BY job_id",
      [this.queue],
    );
    const expired = this.order.filter((job) => job.state === "active" && job.leaseUs <= this.nowUs);
    expect(rows.map((row) => row.job_id)).toEqual(
      expired.map((job) => String(job.id)).sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1)),
    );
    for (const job of expired) this.comeBack(job, 0);
  }
}
