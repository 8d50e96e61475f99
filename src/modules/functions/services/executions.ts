/** Records of runs: written a moment later and many at a time, exactly one for each run. */
import type { Database } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { LogLine, UserError } from '../engine/protocol.ts';

export interface ExecutionRecord {
  readonly id: string;
  readonly functionId: string;
  readonly functionName: string;
  readonly version: number;
  readonly trigger: string;
  readonly success: boolean;
  readonly outcome: string;
  readonly statusCode: number;
  readonly durationMs: number;
  readonly cpuMs: number;
  readonly memoryPeak: number;
  readonly attempt: number;
  readonly requestId: string;
  readonly userId: string | null;
  readonly error: UserError | null;
  readonly logs: readonly LogLine[];
  /** What a failed run can be run again with. */
  readonly input: unknown;
  readonly createdAt: string;
}

export interface ExecutionWriter {
  add(record: ExecutionRecord): void;
  /** Resolves when everything that was added is stored. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const EVERY_MS = 200;
/** Records of one statement, and records that wait at most while the database does not take them. */
const BATCH = 500;
const MAX_WAITING = 20_000;

export function createExecutionWriter(database: Database, log: Logger): ExecutionWriter {
  let waiting: ExecutionRecord[] = [];
  let writing: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, BATCH);
      await insertThoseThatFit(batch);
      waiting = waiting.slice(batch.length);
    }
  }

  /** A record that the database can never take must not keep back the others, nor those after it. */
  async function insertThoseThatFit(batch: readonly ExecutionRecord[]): Promise<void> {
    try {
      await insertExecutions(database, batch);
    } catch (error) {
      if (!isUnstorable(error)) throw error;
      const [first] = batch;
      if (batch.length > 1) {
        const half = Math.ceil(batch.length / 2);
        await insertThoseThatFit(batch.slice(0, half));
        await insertThoseThatFit(batch.slice(half));
      } else log.error({ err: error, execution: first?.id }, 'The record of a run was left out');
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(writeAll).catch((error: unknown) => {
      log.warn({ err: error, waiting: waiting.length }, 'Records of runs could not be written yet');
      if (waiting.length > 0) later();
    });
    return writing;
  }

  /** Not on the account of the run that is recorded: its time may be over. */
  const apart = (): Promise<void> => offAccount(() => database.outside(flush));

  function later(): void {
    timer ??= setTimeout(() => void apart(), EVERY_MS);
    timer.unref();
  }

  return {
    add(record) {
      if (waiting.length >= MAX_WAITING) waiting.shift();
      waiting.push(record);
      later();
    },
    flush: apart,
    close: apart,
  };
}

/** Classes of PostgreSQL for values that are wrong, and for rules that they break. */
const isUnstorable = (error: unknown): boolean => /^2[23]/.test(codeOf(error) ?? '');

/** Read as `json`: making `jsonb` of them all first takes PostgreSQL as long as storing them. */
const insertExecutions = (
  database: Database,
  records: readonly ExecutionRecord[],
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.function_executions (id, function_id, function_name, version, trigger, success, outcome, status_code,
      duration_ms, cpu_ms, memory_peak, attempt, request_id, user_id, error, logs, input, created_at)
    select id, "functionId", "functionName", version, trigger, success, outcome, "statusCode", "durationMs", "cpuMs",
      "memoryPeak", attempt, "requestId", "userId", nullif(error, 'null'::jsonb), logs, nullif(input, 'null'::jsonb), "createdAt"
    from json_to_recordset(${JSON.stringify(records)}::json) as r(id uuid, "functionId" uuid, "functionName" text,
      version integer, trigger text, success boolean, outcome text, "statusCode" integer, "durationMs" real, "cpuMs" real,
      "memoryPeak" bigint, attempt integer, "requestId" text, "userId" uuid, error jsonb, logs jsonb, input jsonb,
      "createdAt" timestamptz)
    on conflict (id) do nothing`);
