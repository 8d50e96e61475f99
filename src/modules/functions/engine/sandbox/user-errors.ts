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

/** Characters of the name and of the code of an error. */
const MOST_NAME = 200;

const textOf = (value: unknown, most: number): string =>
  typeof value === 'string' ? value.slice(0, most) : '';

/** An error with the place where it stands in the source as it was written, and without frames that are not of the function. */
export function errorOfUser(given: Partial<UserError>, file: string, placeOf?: PlaceOf): UserError {
  const name = textOf(given.name, MOST_NAME) || 'Error';
  const code = textOf(given.code, MOST_NAME);
  const { status } = given;
  const full = textOf(given.message, 4_000);
  const [said, , saidLine, saidColumn] = parserPlace.exec(full.slice(full.lastIndexOf(' ['))) ?? [];
  const message = said === undefined ? full : full.slice(0, -said.length);
  const frames = textOf(given.stack, 16_000)
    .split('\n')
    .filter((line) => /^\s+at /.test(line) && !line.includes(PRELUDE_FILE))
    .map((line) => line.trim())
    .filter((line) => line.includes(file) || line.includes('package:'))
    .map((line) => (placeOf && line.includes(file) ? asWritten(line, placeOf) : line));
  const top = frames.find((line) => line.includes(file));
  const [, , frameLine, frameColumn] = framePlace.exec(top ?? '') ?? [];
  const [line, column] = [saidLine ?? frameLine, saidColumn ?? frameColumn].map(Number);
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
  };
}
