/** The log as it is written, for those who watch it now. */
import type { Logger } from './logger.ts';
import { redact, redactText } from './redact.ts';

/** A line of the log, without secrets. */
export interface LogLine {
  readonly level: 'info' | 'warn' | 'error';
  /** ISO 8601. */
  readonly time: string;
  readonly message: string;
  readonly fields: object;
}

export interface LogTail {
  /** Writes what the given one writes, and hands it to those who watch. */
  readonly log: Logger;
  /** From now on; the line is made when it is asked for. Answers how to stop. Details (`debug`) are not told. */
  watch(listener: (line: () => LogLine) => void): () => void;
}

export function createLogTail(target: Logger): LogTail {
  const listeners = new Set<(line: () => LogLine) => void>();
  /** What a listener does may be logged itself. */
  let telling = false;
  const tell = (level: LogLine['level'], bound: object, fields: object, message: string): void => {
    if (listeners.size === 0 || telling) return;
    telling = true;
    try {
      const line = (): LogLine => ({
        ...{ level, time: new Date().toISOString(), message: redactText(message) },
        fields: redact({ ...bound, ...plain(fields) }),
      });
      for (const listener of listeners) listener(line);
    } finally {
      telling = false;
    }
  };
  const around = (logger: Logger, bound: object): Logger => ({
    debug: (fields, message) => logger.debug(fields, message),
    info(fields, message) {
      logger.info(fields, message);
      tell('info', bound, fields, message);
    },
    warn(fields, message) {
      logger.warn(fields, message);
      tell('warn', bound, fields, message);
    },
    error(fields, message) {
      logger.error(fields, message);
      tell('error', bound, fields, message);
    },
    child: (fields) => around(logger.child(fields), { ...bound, ...fields }),
  });
  return {
    log: around(target, {}),
    watch(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** An error as JSON would leave nothing of it. */
const plain = (fields: object): object =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error
        ? {
            name: value.name,
            message: value.message,
            ...('code' in value && { code: String(value.code) }),
          }
        : value,
    ]),
  );
