/** Errors of user code, as operators see them. Whatever such an error consists of, the code has made it. */
import type { UserError } from '../protocol.ts';
import { PRELUDE_FILE } from './prelude-text.ts';
import type { PlaceOf } from './typescript.ts';

/** The code has changed what its environment is made of. */
export const brokenError: UserError = {
  name: 'Error',
  code: 'ENVIRONMENT_BROKEN',
  message: 'The code has changed what its environment works with, such as JSON or String',
};

/** Line and column of a frame, and of what the parser says. */
const framePlace = /^(.*):(\d+):(\d+)\)?$/;
const parserPlace = /^ \[(.*):(\d+):(\d+)\]$/;

function asWritten(frame: string, placeOf: PlaceOf): string {
  const [, before, line, column] = framePlace.exec(frame) ?? [];
  if (before === undefined) return frame;
  const place = placeOf(Number(line), Number(column)).join(':');
  return `${before}:${place}${frame.endsWith(')') ? ')' : ''}`;
}

const frameLine = /^\s+at /;

/** Causes of an error that are told. */
const MAX_CAUSES = 3;

/** Characters of the name and of the code of an error. */
const MAX_NAME = 200;

const textOf = (value: unknown, most: number): string =>
  typeof value === 'string' ? value.slice(0, most) : '';

/** What an error says of itself: anything. */
export type GivenError = Omit<Partial<UserError>, 'cause'> & { readonly cause?: unknown };

/** An error with the place where it stands in the source as it was written, and without frames that are not of the function. */
export function errorOfUser(
  given: GivenError,
  file: string,
  placeOf?: PlaceOf,
  depth = 0,
): UserError {
  const name = textOf(given.name, MAX_NAME) || 'Error';
  const code = textOf(given.code, MAX_NAME);
  const { status, cause } = given;
  const hasCause = typeof cause === 'object' && cause !== null && depth < MAX_CAUSES;
  const full = textOf(given.message, 4_000);
  const [said, , saidLine, saidColumn] = parserPlace.exec(full.slice(full.lastIndexOf(' ['))) ?? [];
  const message = said === undefined ? full : full.slice(0, -said.length);
  const frames = textOf(given.stack, 16_000)
    .split('\n')
    .filter((line) => frameLine.test(line) && !line.includes(PRELUDE_FILE))
    .map((line) => line.trim())
    .filter((line) => line.includes(file) || line.includes('package:'))
    .map((line) => (placeOf && line.includes(file) ? asWritten(line, placeOf) : line));
  const top = frames.find((line) => line.includes(file));
  const [, , topLine, topColumn] = framePlace.exec(top ?? '') ?? [];
  const [line, column] = [saidLine ?? topLine, saidColumn ?? topColumn].map(Number);
  return {
    name,
    message,
    ...(frames.length > 0 && {
      stack: [`${name}: ${message}`, ...frames.slice(0, 10)].join('\n    '),
    }),
    ...(code !== '' && { code }),
    ...(typeof status === 'number' && { status }),
    ...(line !== undefined && !Number.isNaN(line) && { line }),
    ...(column !== undefined && !Number.isNaN(column) && { column }),
    ...(hasCause && { cause: errorOfUser(cause, file, placeOf, depth + 1) }),
  };
}

/** A logged text: the frames of errors in it as operators see those of an error. */
export function logOfUser(text: string, file: string, places: () => PlaceOf | undefined): string {
  if (!text.includes('\n    at ')) return text;
  const placeOf = places();
  return text
    .split('\n')
    .filter((line) => !(frameLine.test(line) && line.includes(PRELUDE_FILE)))
    .map((line) =>
      placeOf && frameLine.test(line) && line.includes(file) ? asWritten(line, placeOf) : line,
    )
    .join('\n');
}

/** What is logged of a promise that was rejected while nobody awaited it. */
export const strayText = ({ name, message, stack }: UserError): string =>
  `Nobody awaits what was rejected: ${stack ?? `${name}: ${message}`}`;
