/** Submissions as CSV (RFC 4180). What a spreadsheet would run as a formula gets an apostrophe in front (CWE-1236). */
import type { SubmissionRow } from '../queries/submissions.ts';

/** Also in the wide forms of East Asian keyboards, and behind spaces. */
const formula = /^\s*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const quotable = /["\r\n,;\t]|^\s|\s$|^$/;

const inert = (text: string): string => (formula.test(text) ? `'${text}` : text);
const quoted = (text: string): string =>
  quotable.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** Numbers and switches are none of the submitter's texts: -5 stays a number. */
function cellOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return quoted(inert(Array.isArray(value) ? value.join('; ') : String(value)));
}

const ownColumns = ['_id', 'createdAt', 'status', 'possibleSpam'] as const;

export interface Csv {
  readonly header: string;
  readonly line: (submission: SubmissionRow) => string;
}

/** Of the fields that the form has now; `files` has the names of files, and the fields their ids. */
export function createCsv(fields: readonly string[]): Csv {
  return {
    header: `${[...ownColumns, ...fields, 'files'].map(quoted).join(',')}\r\n`,
    line: ({ id, createdAt, status, possibleSpam, data, files }) => {
      const values = [
        id,
        createdAt.toISOString(),
        status,
        possibleSpam,
        ...fields.map((name) => (Object.hasOwn(data, name) ? data[name] : undefined)),
        files.map(({ name }) => name),
      ];
      return `${values.map(cellOf).join(',')}\r\n`;
    },
  };
}
