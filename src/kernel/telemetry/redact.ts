/**
 * Keeps secrets out of logs, at whatever depth they stand: by the name of the
 * key, and by the form of the value. Callers still pass none; this is the net
 * below them.
 */
const secretKey =
  /authorization|cookie|master-?_?key|credential|password|passwd|passphrase|secret|token|api-?_?key|private-?_?key|bearer|otp|backup-?_?codes?/i;

/** Names that look like secrets and are none. */
const harmlessKey = /^(?:tokenPrefix|tokenId|tokens|passwordChangedAt|mustChangePassword)$/;

/** Values that are secrets wherever they stand: API tokens, JWTs, bearer headers, passwords in addresses. */
const secretValues: readonly (readonly [RegExp, string])[] = [
  [/\bcdt_[A-Za-z0-9_-]{8,}/g, 'cdt_[redacted]'],
  [/\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g, '[redacted]'],
  [/\bbearer\s+[^\s"',]+/gi, 'Bearer [redacted]'],
  [/([a-z][a-z0-9+.-]*:\/\/[^\s:/@]*):[^\s/@]+@/gi, '$1:[redacted]@'],
];

const REDACTED = '[redacted]';
const MAX_DEPTH = 8;
/** Characters of one text in a log line. */
const MAX_TEXT = 8_192;

export function redactText(text: string): string {
  const cut = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text;
  return secretValues.reduce((all, [pattern, replacement]) => all.replace(pattern, replacement), cut);
}

/** A copy of `fields` that is fit for a log line. */
export function redact(fields: object): Record<string, unknown> {
  return redactObject(fields, 0);
}

function redactObject(object: object, depth: number): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(object)) {
    copy[key] = secretKey.test(key) && !harmlessKey.test(key) && mayBeSecret(value) ? REDACTED : redactValue(value, depth + 1);
  }
  return copy;
}

/** A flag is no secret. A number may be: one-time codes are numbers. */
const mayBeSecret = (value: unknown): boolean => value !== undefined && value !== null && typeof value !== 'boolean';

function redactValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return redactText(value);
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) return '[deep]';
  if (value instanceof Error) return describeError(value, depth);
  if (value instanceof Date) return value;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.map((item) => redactValue(item, depth + 1));
  return redactObject(value, depth);
}

/** What a log may say about an error. Database errors lose the values that PostgreSQL quotes. */
function describeError(error: Error, depth: number): Record<string, unknown> {
  const message = redactText(withoutValues(error));
  const described: Record<string, unknown> = { type: error.name, message, stack: framesOf(error) };
  for (const key of ['code', 'status', 'severity', 'schema', 'table', 'column', 'constraint', 'routine'] as const) {
    const value: unknown = Reflect.get(error, key);
    if (typeof value === 'string' || typeof value === 'number') described[key] = value;
  }
  if (error.cause !== undefined) described.cause = redactValue(error.cause, depth + 1);
  return described;
}

/** PostgreSQL appends the offending value after a colon; `severity` and `routine` are on every error of the server. */
function withoutValues(error: Error): string {
  const fromServer = 'severity' in error && 'routine' in error;
  return fromServer ? error.message.replace(/: ".*$/s, '').replace(/=\([^)]*\)/g, '=(...)') : error.message;
}

/** The stack without its first lines, which repeat the message. */
const framesOf = (error: Error): string =>
  (error.stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .map((line) => line.trim())
    .join('\n');
