/** What operators' hooks say about a message that is about to go out. */
import { system } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { Hooks } from '../../../kernel/hooks/hooks.ts';
import {
  type MessageHookTexts,
  type MessageHookValue,
  sendPoint,
} from '../../../kernel/hooks/points.ts';
import type { ClaimedMessage } from '../delivery-queries.ts';
import { type MessageContent, plainText } from './content.ts';
import { type Delivery, DeliveryError, words } from './providers/outcome.ts';

/**
 * The content as the hooks of operators left it, or their refusal. A hook that cannot answer now is asked again with the
 * next attempt. Throws `DeliveryError`.
 */
export async function askHooks(
  hooks: Hooks,
  { id, channel, recipient, category, attempts }: ClaimedMessage,
  content: MessageContent,
): Promise<MessageContent | Delivery> {
  if (!hooks.has(sendPoint)) return content;
  const { subject, html, text, push } = content;
  try {
    const answer = await hooks.run<MessageHookValue>(sendPoint, system('communications'), {
      ...{ id, channel, to: recipient, attempt: attempts, subject, html },
      ...{ text: push ? (push.body ?? '') : text, title: push?.title, data: push?.data },
      category: category ?? undefined,
    });
    return withTexts(content, answer);
  } catch (error) {
    const reason = words(error instanceof Error ? error.message : String(error));
    if (!(error instanceof PenstockError) || error.status >= 500)
      throw new DeliveryError('transient', 'hook', reason);
    return { outcome: 'refused', provider: 'hook', about: 'content', reason };
  }
}

/** Another HTML brings its own text, unless the hook gave one too. */
function withTexts(before: MessageContent, given: MessageHookTexts): MessageContent {
  const { push, ...content } = before;
  const { subject, html, title, data } = given;
  if (push) {
    const note = { ...push, title, data, ...(given.text !== '' && { body: given.text }) };
    return { ...content, text: note.body ?? title ?? '', push: note };
  }
  const isOwnText = given.text !== before.text || html === undefined || html === before.html;
  return {
    ...content,
    text: isOwnText ? given.text : plainText(html),
    ...(subject !== undefined && { subject }),
    ...(html !== undefined && { html }),
  };
}
