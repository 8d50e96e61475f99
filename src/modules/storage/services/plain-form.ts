/**
 * Forms as browsers and libraries write them: nothing before the first part, few headers without escapes, short fields in
 * ASCII. Their file is found by the search of the runtime. All that is written otherwise is left to the parser
 * (multipart.ts), so that this need not know it.
 */
import { isAscii } from 'node:buffer';

/** Bytes of the headers of a part, and of a field. */
const MAX_HEAD = 8_192;
const MAX_VALUE = 16_384;
const MAX_FIELDS = 30;
/** Pieces in which the file has begun; more of them are crumbs. */
const PIECES = 4;

const plainType = /^multipart\/form-data; ?boundary=([\w'()+,./:=?-]{1,70})$/i;
const disposition =
  /^content-disposition: form-data; name="([\w .[\]-]{1,100})"(?:; filename="([\w .,()@+~=-]{1,255})")?$/i;
const mediaType = /^content-type: ([\w.+-]{1,100}\/[\w.+-]{1,100})$/i;

export interface FileHead {
  /** As the client names it, without folders. */
  readonly fileName: string;
  /** As the client says: a hint. */
  readonly mimeType: string;
}

interface PartHead {
  readonly name: string;
  /** Absent: it is a field. */
  readonly file?: FileHead;
}

/** Nothing for headers that are not plain. */
function partHead(text: string): PartHead | undefined {
  const [first = '', second, ...more] = text.split('\r\n');
  const [, name, fileName] = disposition.exec(first) ?? [];
  const [, mimeType] = (second !== undefined && mediaType.exec(second)) || [];
  const isPlain = name !== undefined && more.length === 0 && (second === undefined || mimeType);
  if (!isPlain || fileName === '.' || fileName === '..') return undefined;
  if (fileName !== undefined)
    return { name, file: { fileName, mimeType: mimeType?.toLowerCase() ?? 'text/plain' } };
  return second === undefined ? { name } : undefined;
}

interface FoundParts {
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** Absent: the form ends here. */
  readonly file?: FileHead;
  /** Where the bytes of the file begin, or what stands behind the form. */
  readonly at: number;
}

const isAt = (bytes: Buffer, at: number, text: string): boolean =>
  bytes.toString('latin1', at, at + text.length) === text;

/** A part whose headers begin with the end of a line, and where its content begins. */
function partAt(bytes: Buffer, at: number): (PartHead & { readonly content: number }) | undefined {
  const end = isAt(bytes, at, '\r\n') ? bytes.indexOf('\r\n\r\n', at) : -1;
  if (end === -1 || end - at > MAX_HEAD) return undefined;
  const head = partHead(bytes.toString('latin1', at + 2, end));
  return head && { ...head, content: end + 4 };
}

/** The value of a field, which ends where the next part begins. */
function valueAt(bytes: Buffer, at: number, begin: string): Buffer | undefined {
  const end = bytes.indexOf(`\r\n${begin}`, at);
  const value = bytes.subarray(at, end);
  const isPlain = end !== -1 && value.length <= MAX_VALUE && isAscii(value);
  return isPlain && !isAt(bytes, at, begin) ? value : undefined;
}

/** What the bytes begin with, up to a file or the end of the form; nothing where that is not plain, or not there yet. */
function partsIn(bytes: Buffer, begin: string): FoundParts | undefined {
  const fields: (readonly [string, string])[] = [];
  for (let at = 0; fields.length <= MAX_FIELDS && isAt(bytes, at, begin); ) {
    at += begin.length;
    if (isAt(bytes, at, '--')) return { fields, at };
    const part = partAt(bytes, at);
    if (part?.file)
      return part.name === 'file' ? { fields, file: part.file, at: part.content } : undefined;
    const value = part && valueAt(bytes, part.content, begin);
    if (!value) return undefined;
    fields.push([part.name, value.toString('latin1')]);
    at = part.content + value.length + 2;
  }
  return undefined;
}

/** How many bytes at the end may be the beginning of the mark. */
function heldBack(bytes: Buffer, mark: Buffer): number {
  const from = Math.max(0, bytes.length - mark.length + 1);
  for (let at = bytes.indexOf(13, from); at !== -1; at = bytes.indexOf(13, at + 1)) {
    const length = bytes.length - at;
    if (bytes.compare(mark, 0, length, at) === 0) return length;
  }
  return 0;
}

/** What a plain form needs of who reads it. */
export interface FormEnds {
  /** Reads to the end of the form what stands behind the file, and the rest of the request. */
  rest(bytes: Buffer): Promise<void>;
  /** A piece of the file, all that is left of the bytes that it came in where it is nearly all of them. */
  owned(slice: Buffer, chunk: Buffer): Buffer;
  breaksOff(): unknown;
}

/** A form whose file has begun. */
export class PlainForm {
  readonly file: FileHead;
  readonly #begin: string;
  readonly #source: AsyncIterator<Buffer>;
  readonly #first: Buffer;

  private constructor(begin: string, source: AsyncIterator<Buffer>, file: FileHead, first: Buffer) {
    this.file = file;
    this.#begin = begin;
    this.#source = source;
    this.#first = first;
  }

  /** Reads until the file begins, adds the fields before it, and keeps in `read` what was read; nothing where the form is not plain. */
  static async open(
    contentType: string,
    source: AsyncIterator<Buffer>,
    { read, fields }: { readonly read: Buffer[]; readonly fields: Map<string, string> },
  ): Promise<PlainForm | undefined> {
    const [, boundary] = plainType.exec(contentType) ?? [];
    while (boundary !== undefined && read.length < PIECES) {
      const next = await source.next();
      if (next.done) return undefined;
      read.push(next.value);
      const bytes = read.length === 1 ? next.value : Buffer.concat(read);
      const found = partsIn(bytes, `--${boundary}`);
      if (found && !found.file) return undefined;
      if (!found?.file) continue;
      for (const [name, value] of found.fields) fields.set(name, value);
      return new PlainForm(`--${boundary}`, source, found.file, bytes.subarray(found.at));
    }
    return undefined;
  }

  /** The bytes of the file; reads to the end of the form. */
  async *body(ends: FormEnds): AsyncGenerator<Buffer> {
    const mark = Buffer.from(`\r\n${this.#begin}`);
    let chunk = this.#first;
    // A mark right behind the headers is none of theirs and none of the file.
    while (chunk.length < mark.length) chunk = await this.#more(chunk, ends);
    if (chunk.indexOf(this.#begin) === 0) throw ends.breaksOff();
    for (;;) {
      const end = chunk.indexOf(mark);
      const held = end === -1 ? heldBack(chunk, mark) : chunk.length - end;
      const slice = chunk.subarray(0, chunk.length - held);
      // Whoever takes the slice may give its memory back.
      const kept = Buffer.from(chunk.subarray(chunk.length - held));
      if (slice.length > 0) yield ends.owned(slice, chunk);
      if (end !== -1) return await ends.rest(kept.subarray(2));
      chunk = await this.#more(kept, ends);
    }
  }

  async #more(before: Buffer, ends: FormEnds): Promise<Buffer> {
    const next = await this.#source.next();
    if (next.done) throw ends.breaksOff();
    return before.length === 0 ? next.value : Buffer.concat([before, next.value]);
  }
}

/** Adds the fields of a plain rest of a form, and answers whether that was its end; nothing where it is not plain. */
export function endOfForm(
  rest: Buffer,
  contentType: string,
  fields: Map<string, string>,
): 'end' | 'file' | undefined {
  const [, boundary] = plainType.exec(contentType) ?? [];
  const found = boundary === undefined ? undefined : partsIn(rest, `--${boundary}`);
  if (!found) return undefined;
  for (const [name, value] of found.fields) fields.set(name, value);
  return found.file ? 'file' : 'end';
}
