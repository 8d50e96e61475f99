/** The files of a mail as a request names them: what they hold, or a file of storage. */
import Type, { type Static } from 'typebox';
import { errors, invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import type { MailParts } from '../services/content.ts';
import { maxFileBytes } from '../services/email/mail.ts';

/** Bytes of all attachments together, as base64; what most mail servers take once it is encoded. */
const maxAttachments = 14_000_000;

export const Attachments = Type.Array(
  Type.Object({
    filename: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        pattern: '^[^\\x00-\\x1f"/\\\\]+$',
        description: 'That of the file unless set',
      }),
    ),
    contentType: Type.Optional(
      Type.String({
        maxLength: 100,
        pattern: '^[a-z0-9.+-]+/[a-z0-9.+-]+$',
        description: 'application/octet-stream, or that of the file, unless set',
      }),
    ),
    content: Type.Optional(
      Type.String({ maxLength: maxAttachments, description: 'Base64, with `filename`' }),
    ),
    fileId: Type.Optional(
      Type.String({
        format: 'uuid',
        description:
          'Instead of `content`: a file of storage that you may read. It is read when the mail goes out',
      }),
    ),
    contentId: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9._@-]{1,100}$',
        description: 'For a picture that the HTML names as cid:...',
      }),
    ),
  }),
  { maxItems: 20, description: 'Files of the mail' },
);

type Files = Static<typeof Attachments>;

/** A file of storage that the caller may read. */
export interface FoundFile {
  readonly name: string;
  readonly size: number;
  readonly mimeType: string | null;
}

/** Answers the file where the caller may read it. */
export type FindFile = (id: string) => Promise<FoundFile | undefined>;

/** With name and type of the files that are attached. Throws 400 for a file that is not there or not the caller's to read, 413. */
export async function withFiles<Body extends { readonly attachments?: Files | undefined }>(
  body: Body,
  find: FindFile,
): Promise<Body> {
  const { attachments } = body;
  if (!attachments?.some(({ fileId }) => fileId !== undefined)) return body;
  let total = 0;
  const named: Files = [];
  for (const [place, one] of attachments.entries()) {
    const file = one.fileId === undefined ? undefined : await find(one.fileId);
    if (one.fileId !== undefined && !file)
      throw invalid(`attachments.${place}.fileId`, 'exists', 'there is no such file to read');
    total += file?.size ?? ((one.content ?? '').length * 3) / 4;
    named.push(
      file
        ? {
            ...one,
            filename: one.filename ?? fileNameOf(file.name),
            contentType: one.contentType ?? file.mimeType ?? 'application/octet-stream',
          }
        : one,
    );
  }
  if (total > maxFileBytes) throw tooLarge(20);
  return { ...body, attachments: named };
}

/** A name as a header of a mail takes it. */
const fileNameOf = (name: string): string =>
  cutText(name.replace(/[\p{Cc}"/\\]/gu, '_'), 200) || 'file';

function tooLarge(megabytes: number) {
  const message = `the files are larger than ${megabytes} MB together`;
  return errors.PAYLOAD_TOO_LARGE({
    message: `attachments: ${message}`,
    errors: [{ path: 'attachments', rule: 'maximum', message }],
  });
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Throws 400 and 413. */
export function checkedFiles(files: Files): MailParts['attachments'] {
  const total = files.reduce((size, { content = '' }) => size + content.length, 0);
  if (total > maxAttachments) throw tooLarge(10);
  return files.map(({ content, filename, contentType, contentId, fileId }, index) => {
    const at = `attachments.${index}`;
    if ((content === undefined) === (fileId === undefined))
      throw invalid(`${at}.content`, 'required', 'give content or fileId');
    if (filename === undefined) throw invalid(`${at}.filename`, 'required', 'give a name');
    if (content !== undefined && (!base64.test(content) || content.length % 4 !== 0))
      throw invalid(`${at}.content`, 'base64', 'must be base64');
    const type = contentType ?? 'application/octet-stream';
    return { filename, contentType: type, content: content ?? '', contentId, fileId };
  });
}
