/** The log: one JSON object per line, on standard output unless told otherwise. */
import { type DestinationStream, type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import type { Settings } from '../settings/settings.ts';
import type { Logger } from './logger.ts';
import { redact, redactText } from './redact.ts';

/**
 * One line per cause and minute: an outage makes every worker and every request complain about the
 * same thing, and 600 lines a minute hide what else happens. The first line is written at once, the
 * rest of the minute is counted, and the count comes with the last of them.
 */
type RepeatedLevel = 'warn' | 'error';
type Write = (level: RepeatedLevel, fields: object, message: string) => void;

interface Repeats {
  /** Writes the line now, or counts it. `scope` tells loggers apart that are bound to different fields. */
  take(
    line: { level: RepeatedLevel; scope: string; fields: object; message: string },
    write: Write,
  ): void;
}

const WINDOW_MS = 60_000;
/** More causes than this at a time are not counted: they are written. */
const MAX_CAUSES = 500;
/** Characters of an error's text that tell causes apart. */
const LONGEST_CAUSE = 200;
/** Fields that are part of what is wrong; others (request ids, times) only say where it showed. */
const causeFields = ['job', 'queue', 'route', 'status', 'module'] as const;

interface Cause {
  readonly since: number;
  count: number;
  /** Writes the last line that was held back. */
  flush: (() => void) | undefined;
}

export function createRepeats(now: () => number = Date.now, windowMs = WINDOW_MS): Repeats {
  const causes = new Map<string, Cause>();
  let timer: NodeJS.Timeout | undefined;

  const sweep = (): void => {
    const oldest = now() - windowMs;
    for (const [key, cause] of causes) {
      // They are in the order of their beginning.
      if (cause.since > oldest) break;
      causes.delete(key);
      cause.flush?.();
    }
    if (causes.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  return {
    take({ level, scope, fields, message }, write) {
      sweep();
      const key = [level, scope, message, causeOf(fields)].join('\n');
      const known = causes.get(key);
      if (known === undefined) {
        if (causes.size < MAX_CAUSES) causes.set(key, { since: now(), count: 0, flush: undefined });
        timer ??= setInterval(sweep, windowMs / 4).unref();
        return write(level, fields, message);
      }
      known.count += 1;
      known.flush = () =>
        write(
          level,
          { ...fields, repeated: known.count, withinSeconds: windowMs / 1_000 },
          message,
        );
    },
  };
}

function causeOf(fields: object): string {
  const values = fields as Readonly<Record<string, unknown>>;
  const named = causeFields.map((name) => (values[name] === undefined ? '' : String(values[name])));
  return [...named, errorText(values.err ?? values.error)].join('|');
}

/** Numbers and ids in a text do not make it another cause. */
function errorText(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const code = 'code' in error ? String(error.code) : '';
  const text = error.message.slice(0, LONGEST_CAUSE).replaceAll(/[0-9a-f]{8}[0-9a-f-]*|\d+/gi, '#');
  return `${error.name} ${code} ${text}`;
}

/** Lines have `level`, `time` (ISO 8601), the fields, and `message`. Secrets are replaced whatever the fields hold. */
export function createLogger(
  settings: Pick<Settings, 'logLevel'>,
  destination?: DestinationStream,
): Logger {
  const options = {
    level: settings.logLevel,
    base: null,
    messageKey: 'message',
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return adapt(destination ? pino(options, destination) : pino(options), createRepeats(), '');
}

function adapt(target: PinoLogger, repeats: Repeats, scope: string): Logger {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: object, message: string): void => {
      if (target.isLevelEnabled(level)) target[level](redact(fields), redactText(message));
    };
  const complain =
    (level: RepeatedLevel) =>
    (fields: object, message: string): void => {
      if (target.isLevelEnabled(level))
        repeats.take({ level, scope, fields, message }, (_level, all, text) =>
          write(level)(all, text),
        );
    };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: complain('warn'),
    error: complain('error'),
    child: (fields) =>
      adapt(target.child(redact(fields)), repeats, `${scope}${JSON.stringify(redact(fields))}`),
  };
}
