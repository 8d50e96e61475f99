/** Rows that may come a moment later, many in one statement: what models read, at the pace of models. */

import type { Database, Statement } from '../database/database.ts';
import { offAccount } from '../request-account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AuditEntry } from './audit.ts';

/** Milliseconds that a row waits for others. */
const DELAY_MS = 250;
/** Rows that go at once. */
const FULL = 200;

export interface LaterRows {
  add(entry: AuditEntry): void;
  /** Writes what waits. Never rejects: rows that cannot be written are counted in the log. */
  flush(): Promise<void>;
}

interface Parts {
  readonly database: Database;
  readonly log: Logger;
  readonly insert: (entries: readonly AuditEntry[]) => Statement;
}

export function createLaterRows({ database, log, insert }: Parts): LaterRows {
  let waiting: AuditEntry[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  const write = async (entries: readonly AuditEntry[]): Promise<void> => {
    try {
      await database.query(insert(entries));
    } catch (error) {
      log.error(
        { err: error, rows: entries.length },
        'What models have read could not be written to the audit log',
      );
    }
  };
  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const entries = waiting;
    waiting = [];
    if (entries.length > 0) writing = writing.then(() => offAccount(() => write(entries)));
    return writing;
  };

  return {
    add(entry) {
      waiting.push(entry);
      if (waiting.length >= FULL) void flush();
      else timer ??= setTimeout(flush, DELAY_MS).unref();
    },
    flush,
  };
}
