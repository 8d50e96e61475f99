/** What was sent with forms, as operators read, export and delete it. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { streamRows } from '../../../kernel/database/stream-rows.ts';
import { isId } from '../../../kernel/ids.ts';
import { formErrors } from '../errors.ts';
import {
  type DeletedSubmission,
  deleteSubmission,
  deleteSubmissionsOf,
  deleteSubmissionsOfForm,
  noteAbandoned,
  noteSpam,
} from '../queries/changes.ts';
import type { FormRow } from '../queries/forms.ts';
import {
  exportSubmissions,
  listSubmissions,
  lockSubmission,
  type SubmissionFilter,
  type SubmissionPage,
  type SubmissionRow,
  submissionById,
} from '../queries/submissions.ts';
import { formContainer } from './attachments.ts';
import type { FormParts } from './form-parts.ts';
import { processJobName } from './processing.ts';

/* Submissions as CSV (RFC 4180). What a spreadsheet would run as a formula gets an apostrophe in front (CWE-1236). */

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

interface Csv {
  readonly header: string;
  readonly line: (submission: SubmissionRow) => string;
}

/** Of the fields that the form has now; `files` has the names of files, and the fields their ids. */
function createCsv(fields: readonly string[]): Csv {
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

export interface Submissions {
  list(page: SubmissionPage): ReturnType<typeof listSubmissions>;
  /** Throws SUBMISSION_NOT_FOUND. */
  get(id: string): Promise<SubmissionRow>;
  /** With the files that came with it. Throws SUBMISSION_NOT_FOUND. */
  remove(id: string): Promise<void>;
  removeAllOf(transaction: Transaction, formId: string): Promise<void>;
  /** Deletes what these users, or this address, have sent; answers how many. */
  erase(who: { userIds?: readonly string[]; email?: string | null }): Promise<number>;
  /** What an operator says. One that is no spam after all is forwarded and answered now. */
  judge(caller: Caller, id: string, possibleSpam: boolean): Promise<SubmissionRow>;
  /** As CSV, piece by piece, oldest first. Formulas of spreadsheets are put out of action. */
  export(
    form: FormRow,
    filter: Omit<SubmissionFilter, 'formId'>,
    signal: AbortSignal,
  ): AsyncGenerator<string>;
}

type Parts = Pick<FormParts, 'database' | 'jobs' | 'storage'>;

/** Submissions of one statement. */
const BATCH = 500;

/**
 * Deletes the files of submissions that are deleted in this transaction. While storage does not run they are noted for
 * the clean-up: whoever wants to be forgotten does not wait for it.
 */
export async function removeFilesOf(
  { storage }: Pick<Parts, 'storage'>,
  transaction: Transaction,
  gone: readonly DeletedSubmission[],
): Promise<void> {
  const names = gone.flatMap(({ files }) => files.flatMap(({ stored }) => stored ?? []));
  if (names.length === 0) return;
  const service = storage.current();
  if (service) await service.files.removeNamed(transaction, formContainer, names);
  else await noteAbandoned(transaction, names);
}

export function createSubmissions(parts: Parts): Submissions {
  const { database, jobs } = parts;

  const removeInBatches = async (
    transaction: Transaction,
    next: () => Promise<readonly DeletedSubmission[]>,
  ): Promise<number> => {
    let count = 0;
    for (let gone = await next(); gone.length > 0; gone = await next()) {
      await removeFilesOf(parts, transaction, gone);
      count += gone.length;
    }
    return count;
  };

  return {
    list: (page) => listSubmissions(database, page),
    get: async (id) => existing(isId(id) ? await submissionById(database, id) : undefined),
    remove: (id) =>
      database.transaction(async (transaction) => {
        const gone = isId(id) ? await deleteSubmission(transaction, id) : [];
        if (gone.length === 0) throw formErrors.SUBMISSION_NOT_FOUND();
        await removeFilesOf(parts, transaction, gone);
      }),
    removeAllOf: async (transaction, formId) =>
      void (await removeInBatches(transaction, () =>
        deleteSubmissionsOfForm(transaction, formId, BATCH),
      )),
    erase: ({ email, ...who }) =>
      database.transaction((transaction) =>
        removeInBatches(transaction, () =>
          deleteSubmissionsOf(transaction, { ...who, email: email?.toLowerCase() ?? null }, BATCH),
        ),
      ),
    judge: (_caller, id, possibleSpam) =>
      database.transaction(async (transaction) => {
        existing(isId(id) ? await lockSubmission(transaction, id) : undefined);
        await noteSpam(transaction, id, possibleSpam);
        const changed = existing(await submissionById(transaction, id));
        if (changed.screenedAt !== null && changed.deliveredAt === null)
          await jobs.enqueue(processJobName, { id }, { transaction });
        return changed;
      }),
    export: (form, filter, signal) =>
      exported(database, form, { ...filter, formId: form.id }, signal),
  };
}

async function* exported(
  database: Parts['database'],
  { definition }: FormRow,
  filter: SubmissionFilter,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const csv = createCsv(definition.fields.map(({ name }) => name));
  let pending = csv.header;
  const sizeOf = ({ data }: SubmissionRow): number => JSON.stringify(data).length + 500;
  const rows = streamRows<SubmissionRow>(database, exportSubmissions(filter), { signal, sizeOf });
  for await (const batch of rows) {
    yield pending + batch.map(csv.line).join('');
    pending = '';
  }
  if (pending !== '') yield pending;
}

function existing(submission: SubmissionRow | undefined): SubmissionRow {
  if (!submission) throw formErrors.SUBMISSION_NOT_FOUND();
  return submission;
}
