/**
 * Formats of texts in requests: how they are told, and what they mean where the usual meaning admits values that nothing
 * behind can take.
 */
import { IsDateTime, Set as setFormat } from 'typebox/format';

/** What a text of the format must be. */
export const formatWords: ReadonlyMap<string, string> = new Map([
  ['email', 'must be an e-mail address'],
  ['uuid', 'must be a UUID'],
  [
    'date-time',
    'must be an ISO 8601 date and time with an offset below 16 hours, of the years 1 to 9999 and without leap seconds',
  ],
  ['date', 'must be a date like 2026-01-31'],
  ['uri', 'must be an absolute URL'],
  ['url', 'must be an absolute URL'],
]);

/**
 * The standard also takes leap seconds, names of zones (`...Z[Europe/Berlin]`), the year 0, and by its offset the year
 * 10000: neither a `Date` nor the database has these. Offsets of 16 hours and more are used nowhere, and PostgreSQL has
 * none (its manual, "Date/Time Input").
 */
const wideOffset = /[+-](?:1[6-9]|2\d):?\d\d$/;

function isMoment(text: string): boolean {
  const year = new Date(text).getUTCFullYear();
  return year >= 1 && year <= 9999 && IsDateTime(text) && !wideOffset.test(text);
}

setFormat('date-time', isMoment);
