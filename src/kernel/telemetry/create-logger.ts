/** The log: one JSON object per line, on standard output unless told otherwise. */
import { type DestinationStream, type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import type { Settings } from '../settings.ts';
import type { Logger } from './logger.ts';
import { redact, redactText } from './redact.ts';

/** Lines have `level`, `time` (ISO 8601), the fields, and `message`. Secrets are replaced whatever the fields hold. */
export function createLogger(settings: Pick<Settings, 'logLevel'>, destination?: DestinationStream): Logger {
  const options = {
    level: settings.logLevel,
    base: null,
    messageKey: 'message',
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return adapt(destination ? pino(options, destination) : pino(options));
}

function adapt(target: PinoLogger): Logger {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: object, message: string): void => {
      if (target.isLevelEnabled(level)) target[level](redact(fields), redactText(message));
    };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (fields) => adapt(target.child(redact(fields))),
  };
}
