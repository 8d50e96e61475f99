/** What a message may hold (specification chat.md 6.3). */
import Type, { type Static } from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import type { ChatConfig } from '../config.ts';
import { type MessageType, messageTypes } from '../schemas.ts';

const Id = Type.String({ format: 'uuid' });

/** As clients write it; what fits together is checked by `contentOf`. */
export const ContentInput = Type.Object({
  contentType: Type.Enum(messageTypes),
  content: Type.Optional(Type.String({ maxLength: 400_000 })),
  files: Type.Optional(Type.Array(Id, { maxItems: 100 })),
  nonce: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'Your mark: what comes twice with it is stored once.',
    }),
  ),
  threadRoot: Type.Optional({ ...Id, description: 'The message that it answers.' }),
  mentions: Type.Optional(
    Type.Array(Id, { maxItems: 50, description: 'Members whom it calls; others are left out.' }),
  ),
});
export type ContentInput = Static<typeof ContentInput>;

/** A message that fits the rules of its type. */
export interface MessageContent {
  readonly type: Exclude<MessageType, 'typing'>;
  readonly content: string | null;
  readonly files: readonly string[];
  readonly nonce: string | null;
  readonly threadRoot: string | null;
  readonly mentions: readonly string[];
}

/** Throws 400. */
export function contentOf(
  input: ContentInput | string,
  { messageLength, filesPerMessage }: ChatConfig['limits'],
): MessageContent {
  const given: ContentInput =
    typeof input === 'string' ? { contentType: 'text', content: input } : input;
  const { contentType: type, content, files = [], nonce, threadRoot, mentions = [] } = given;
  if (type === 'typing') throw invalid('contentType', 'enum', 'a typing sign is no message');
  requireWords(type, content, messageLength);
  requireParts(type, files, filesPerMessage);
  if (nonce?.includes('\0')) throw invalid('nonce', 'format', 'must not hold the character NUL');
  return {
    type,
    content: content ?? null,
    files: type === 'text' ? [] : [...new Set(files.map((id) => id.toLowerCase()))],
    nonce: nonce ?? null,
    threadRoot: threadRoot?.toLowerCase() ?? null,
    mentions,
  };
}

function requireWords(type: MessageType, content: string | undefined, longest: number): void {
  if (type !== 'file' && (content === undefined || content.trim() === ''))
    throw invalid('content', 'required', 'must not be empty');
  if (content === undefined) return;
  if ([...content].length > longest)
    throw invalid('content', 'maxLength', `has at most ${longest} characters`);
  if (content.includes('\0')) throw invalid('content', 'format', 'must not hold the character NUL');
}

function requireParts(type: MessageType, files: readonly string[], max: number): void {
  if ((type === 'file' || type === 'multimedia') && files.length === 0)
    throw invalid('files', 'required', 'name the files');
  if (files.length > max) throw invalid('files', 'maxItems', `at most ${max} files`);
}
