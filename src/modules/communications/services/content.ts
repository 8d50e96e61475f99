/** What a message says, in the forms that it is kept and shown in. */
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { linksIn } from './html-text.ts';

export interface MessageContent {
  /** Address of the sender; absent for SMS. */
  readonly from?: string;
  readonly subject?: string;
  readonly html?: string;
  readonly text: string;
  /** The code that the message tells, where it tells one. */
  readonly code?: string;
}

const context = (id: string): string => `communications:message:${id}`;

/** The content encrypted, since it carries links and codes that open accounts. */
export const sealContent = (secrets: SecretBox, id: string, content: MessageContent): string =>
  secrets.seal(JSON.stringify(content), context(id));

export const openContent = (secrets: SecretBox, id: string, sealed: string): MessageContent =>
  JSON.parse(secrets.open(sealed, context(id))) as MessageContent;

/** Where the links of a message lead. */
export const linksOf = ({ html, text }: MessageContent): readonly string[] =>
  html === undefined ? [...text.matchAll(/https?:\/\/[^\s<>"]{1,2000}/g)].map(([link]) => link) : linksIn(html);
