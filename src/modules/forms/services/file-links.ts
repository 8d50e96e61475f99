/** Signed links to files of submissions, for mails: they work for some days, and end with the submission. */
import { createHmac } from 'node:crypto';
import { sameSecret } from '../../../kernel/security/tokens.ts';
import { formErrors, needs } from '../errors.ts';
import { submissionById } from '../queries/submissions.ts';
import type { FormParts } from './form-parts.ts';

export interface FileLink {
  readonly submissionId: string;
  readonly fileId: string;
  /** Seconds since the epoch. */
  readonly expires: number;
}

export interface FileLinks {
  url(submissionId: string, fileId: string): string;
  /** Where the content is now. Throws FORM_LINK_INVALID, and 404 for what is deleted. */
  resolve(link: FileLink, signature: string): Promise<string>;
}

export function createFileLinks({
  secrets,
  config,
  publicUrl,
  storage,
  database,
}: Pick<FormParts, 'secrets' | 'config' | 'publicUrl' | 'storage' | 'database'>): FileLinks {
  const key = secrets.digest('file links', 'forms');
  const sign = ({ submissionId, fileId, expires }: FileLink): string =>
    createHmac('sha256', key).update([submissionId, fileId, expires].join('\n')).digest('hex');
  return {
    url(submissionId, fileId) {
      const expires = Math.floor(Date.now() / 1_000) + config().mail.fileLinkDays * 86_400;
      const sig = sign({ submissionId, fileId, expires });
      const query = new URLSearchParams({ expires: String(expires), sig });
      return `${publicUrl()}/forms/submissions/${submissionId}/files/${fileId}?${query}`;
    },
    async resolve(link, signature) {
      if (!sameSecret(sign(link), signature) || link.expires * 1_000 <= Date.now())
        throw formErrors.FORM_LINK_INVALID();
      const submission = await submissionById(database, link.submissionId);
      if (!submission?.files.some(({ file }) => file === link.fileId))
        throw formErrors.SUBMISSION_NOT_FOUND();
      const service = storage.current();
      if (!service) throw needs('Storage');
      return service.files.readUrl(link.fileId);
    },
  };
}
