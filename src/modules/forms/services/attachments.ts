/**
 * Files of submissions. They are stored before the submission is, under names that are noted first: what a failure or a
 * crash leaves behind is found by those names and deleted.
 */
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { cutText } from '../../../kernel/text.ts';
import type { ModuleFile } from '../../storage/index.ts';
import { type FormDefinition, fieldOf } from '../definition/definition.ts';
import type { FormField } from '../definition/field.ts';
import { type FieldProblem, fieldProblem, invalidSubmission, needs } from '../errors.ts';
import { claimUploads, noteUpload } from '../queries/changes.ts';
import type { SubmittedFile } from '../queries/submissions.ts';
import type { FilePart } from './form-bodies.ts';
import type { FormParts } from './form-parts.ts';

/** Where the files of all forms lie. */
export const formContainer = 'module-forms';

/** A file that has arrived. */
export interface Arrived extends SubmittedFile {
  readonly checksum: string | null;
}

/** The files of one submission while it comes in. */
export interface Attachments {
  readonly arrived: readonly Arrived[];
  /** Names under which they are noted, for whoever stores the submission. */
  readonly names: readonly string[];
  /** Stores a part of a form. Throws SUBMISSION_INVALID, 413, 503. */
  take(part: FilePart): Promise<void>;
  /** Files that a value names: by id, or as a data URL. Adds what is wrong to `problems`. */
  takeValue(field: FormField, value: unknown, problems: FieldProblem[]): Promise<void>;
  /** Deletes what has arrived. Never throws: the clean-up finds what is left. */
  discard(): Promise<void>;
}

interface Submitting {
  readonly caller: Caller;
  readonly definition: FormDefinition;
  readonly signal: AbortSignal;
}

type Parts = Pick<FormParts, 'database' | 'config' | 'storage' | 'log'>;

/** What has come in so far. */
interface Intake {
  readonly arrived: Arrived[];
  readonly names: string[];
  /** How many were sent, stored or not. */
  files: number;
}

export function openAttachments(parts: Parts, submitting: Submitting): Attachments {
  const { caller, definition } = submitting;
  const intake: Intake = { arrived: [], names: [], files: 0 };
  const { arrived, names } = intake;
  const store = createStore(parts, submitting, intake);

  /** False for what is neither a data URL nor a file that the submitter may read. */
  const takeOne = async (field: FormField, value: unknown): Promise<boolean> => {
    const data = typeof value === 'string' ? readDataUrl(value) : undefined;
    if (data) {
      await store(field, data);
      return true;
    }
    if (!isId(value)) return false;
    countFile(parts, field, intake);
    const file = await filesOf(parts).readable(caller, value);
    if (!file) return false;
    if (field.maxSize !== undefined && file.size > field.maxSize)
      throw tooLarge(field.name, field.maxSize);
    refuseType(field, file);
    arrived.push({ ...fileOf(field, file), stored: null });
    return true;
  };

  return {
    arrived,
    names,
    async take({ field: name, ...part }) {
      const field = fieldOf(definition, name);
      if (field?.type === 'file') return store(field, part);
      // A file under a name that the form does not have is dropped like any other value.
      for await (const _chunk of part.body);
    },
    async takeValue(field, value, problems) {
      for (const one of [value].flat()) {
        if (await takeOne(field, one)) continue;
        problems.push(fieldProblem(field.name, 'file', 'must be a file, or the id of one'));
        return;
      }
    },
    discard: () => discard(parts, names),
  };
}

type Store = (field: FormField, part: Omit<FilePart, 'field'>) => Promise<void>;

/** Notes the name of a file, stores it and adds it to what has arrived. */
function createStore(parts: Parts, { signal }: Submitting, intake: Intake): Store {
  return async (field, part) => {
    const { limits, useAttachments } = parts.config();
    if (!useAttachments) throw refused(field.name, 'attachments', 'files are not taken here');
    countFile(parts, field, intake);
    const running = filesOf(parts);
    const name = newId();
    intake.names.push(name);
    await noteUpload(parts.database, name);
    const max = Math.min(limits.fileSize, field.maxSize ?? limits.fileSize);
    const file = await running.store(
      {
        container: formContainer,
        name,
        alias: aliasOf(part.fileName),
        mimeType: hintOf(part.mimeType),
      },
      { source: bounded(part.body, field.name, max), signal },
    );
    intake.arrived.push({ ...fileOf(field, file), stored: name });
    refuseType(field, file);
  };
}

/** Before anything is done about a file, also about one that is there already. Throws SUBMISSION_INVALID. */
function countFile({ config }: Parts, { name }: FormField, intake: Intake): void {
  intake.files += 1;
  const { files } = config().limits;
  if (intake.files > files) throw refused(name, 'maxFiles', `at most ${files} files can be sent`);
}

async function discard(parts: Parts, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  try {
    await parts.database.transaction(async (transaction) => {
      await filesOf(parts).removeNamed(transaction, formContainer, names);
      await claimUploads(transaction, names);
    });
  } catch (error) {
    parts.log.warn({ err: error }, 'Files of a refused submission are left for the clean-up');
  }
}

/** The files of Storage. Throws 503 where it does not run. */
function filesOf({ storage }: Parts) {
  const running = storage.current();
  if (!running) throw needs('Storage');
  return running.files;
}

const refused = (field: string, code: string, message: string) =>
  invalidSubmission(fieldProblem(field, code, message));

const fileOf = (
  { name: field }: FormField,
  { id, name, size, mimeType, checksum }: ModuleFile,
) => ({
  field,
  file: id,
  name,
  size,
  mimeType,
  checksum,
});

function refuseType({ name, mimeTypes }: FormField, { mimeType }: ModuleFile): void {
  if (!mimeTypes) return;
  const type = mimeType ?? 'application/octet-stream';
  const fits = mimeTypes.some((one) => {
    const accepted = one.toLowerCase();
    return accepted.endsWith('/*') ? type.startsWith(accepted.slice(0, -1)) : type === accepted;
  });
  if (!fits) throw refused(name, 'mimeTypes', `must be a file of type ${mimeTypes.join(', ')}`);
}

/** The name on the machine of the sender as one line. */
function aliasOf(fileName: string): string {
  const plain = fileName
    .toWellFormed()
    .normalize('NFC')
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '')
    .trim();
  return cutText(plain, 60) || 'file';
}

const mediaType = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,100}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}$/;

function hintOf(mimeType: string): string | undefined {
  const type = mimeType.slice(0, 210).split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return mediaType.test(type) ? type : undefined;
}

async function* bounded(
  body: AsyncIterable<Buffer>,
  field: string,
  max: number,
): AsyncGenerator<Buffer> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > max) throw tooLarge(field, max);
    yield chunk;
  }
}

function tooLarge(field: string, max: number) {
  const problem = fieldProblem(field, 'maxSize', `a file has at most ${max} bytes`);
  return errors.PAYLOAD_TOO_LARGE({
    message: `${field}: ${problem.message}`,
    errors: [problem],
  });
}

/** With or without padding. Whole: what is cut off, or of another alphabet, would be stored as another file. */
function isBase64(text: string): boolean {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  return (text.length - padding) % 4 !== 1 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

/** `data:image/png;name=a.png;base64,...` as browsers make them; undefined for any other text. */
function readDataUrl(text: string): Omit<FilePart, 'field'> | undefined {
  const comma = text.indexOf(',');
  const head = text.slice(0, Math.min(comma, 500));
  if (comma < 0 || !head.startsWith('data:') || !head.endsWith(';base64')) return undefined;
  const [mimeType = '', ...parameters] = head.slice('data:'.length, -';base64'.length).split(';');
  const named = parameters.find((one) => one.startsWith('name='))?.slice('name='.length);
  const content = text.slice(comma + 1);
  if (!isBase64(content)) return undefined;
  const bytes = Buffer.from(content, 'base64');
  return { fileName: decoded(named ?? 'file'), mimeType, body: oneChunk(bytes) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function* oneChunk(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
