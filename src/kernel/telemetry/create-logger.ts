/** The log: one JSON object per line, on standard output unless told otherwise. */
import { type DestinationStream, type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import type { Settings } from '../settings.ts';
import type { Logger } from './logger.ts';
import { redact, redactText } from './redact.ts';
import { createRepeats, type RepeatedLevel, type Repeats } from './repeats.ts';

/** Lines have `level`, `time` (ISO 8601), the fields, and `message`. Secrets are replaced whatever the fields hold. */
export function createLogger(settings: Pick<Settings, 'logLevel'>, destination?: DestinationStream): Logger {
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
      if (target.isLevelEnabled(level)) repeats.take({ level, scope, fields, message }, (_level, all, text) => write(level)(all, text));
    };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: complain('warn'),
    error: complain('error'),
    child: (fields) => adapt(target.child(redact(fields)), repeats, `${scope}${JSON.stringify(redact(fields))}`),
  };
}
