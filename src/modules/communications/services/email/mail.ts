/** A mail as every way out takes it, and the files that it carries. */
import type { Caller } from '../../../../kernel/caller.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import type { ModuleFile } from '../../../storage/index.ts';
import type { CommunicationsConfig } from '../../config.ts';
import type { Attachment, MailParts, Tracking } from '../content.ts';
import {
  type Delivery,
  DeliveryError,
  type ProviderAnswer,
  refuseCommon,
  words,
} from '../providers/outcome.ts';

export interface OutgoingMail extends Required<Omit<MailParts, 'replyTo' | 'tracking'>> {
  readonly id: string;
  readonly to: string;
  readonly from: string;
  readonly subject: string;
  readonly html: string | undefined;
  readonly text: string;
  readonly replyTo: string | undefined;
  readonly tracking: Tracking;
  /** `<id@domain>`, the same at every attempt, so that a receiver can tell a repetition. */
  readonly messageId: string;
}

/** Files of storage, as this module asks for them. */
export interface MailFiles {
  /** Nothing where this caller may not read it, or storage is off. */
  readable(caller: Caller, id: string): Promise<ModuleFile | undefined>;
  /** Its content; nothing while storage is off. Throws FILE_NOT_FOUND, FILE_EXAMINED, FILE_INFECTED. */
  read(id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
}

/** Bytes of all files in one mail, those of storage among them. */
export const maxFileBytes = 20_000_000;

/** A file that was attached is not there any more, has become too large, or is harmful. */
export class AttachmentGone extends Error {}

/** Milliseconds for reading one file: what hangs keeps no place. */
const readWithinMs = 30_000;

/** A file of storage, piece by piece. Throws AttachmentGone; `DeliveryError` while storage is off or away. */
export async function openFile(
  files: MailFiles,
  { fileId = '', filename }: Attachment,
): Promise<AsyncIterable<Uint8Array>> {
  const away = () => new DeliveryError('transient', 'storage', `${filename} cannot be read now`);
  try {
    const found = await files.read(fileId, AbortSignal.timeout(readWithinMs));
    if (!found) throw away();
    return found;
  } catch (error) {
    const status = error instanceof PenstockError ? error.status : 500;
    if (status === 404) throw new AttachmentGone(`the file ${filename} is no longer there`);
    if (status === 403)
      throw new AttachmentGone(`the scanner has found something in the file ${filename}`);
    throw error instanceof DeliveryError ? error : away();
  }
}

/** With the contents of all files, for providers that want them in one piece. Throws AttachmentGone. */
export async function inOnePiece(files: MailFiles, mail: OutgoingMail): Promise<OutgoingMail> {
  const attachments: Attachment[] = [];
  let total = 0;
  for (const one of mail.attachments) {
    if (one.fileId === undefined) attachments.push(one);
    else {
      const chunks: Uint8Array[] = [];
      for await (const chunk of await openFile(files, one)) {
        total += chunk.length;
        if (total > maxFileBytes) throw new AttachmentGone(`the file ${one.filename} is too large`);
        chunks.push(chunk);
      }
      attachments.push({ ...one, content: Buffer.concat(chunks).toString('base64') });
    }
  }
  return { ...mail, attachments };
}

export type MailSettings = CommunicationsConfig['email']['transportSettings'];

export interface MailProvider {
  /** Throws `DeliveryError` for what may go better later. */
  deliver(mail: OutgoingMail): Promise<Delivery>;
  close?(): void;
}

/** A refusal for good, by the text that the provider gave. Throws for what may go better later. */
export function refusedMail(provider: string, answer: ProviderAnswer, said: string): Delivery {
  refuseCommon(provider, answer, said);
  return {
    outcome: 'refused',
    provider,
    about: aboutOf(said),
    reason: words(`${answer.status} ${said}`),
  };
}

/** Whether words of a provider are about the recipient's address. */
const aboutOf = (said: string): 'recipient' | 'content' =>
  /recipient|'?to'? (?:parameter|address)|to\.\d|email address|invalid.{0,20}address/i.test(said)
    ? 'recipient'
    : 'content';
