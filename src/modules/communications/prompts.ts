/** What models are told about messages that do not arrive. */
import Type from 'typebox';
import { definePrompt, type Prompt } from '../../kernel/operations/prompts.ts';

const debugMessage = definePrompt({
  name: 'debug_message',
  title: 'Find out why a message did not arrive',
  description: 'Why a mail, a text message or a push did not get there, and what helps',
  arguments: Type.Object({
    message: Type.Optional(
      Type.String({
        maxLength: 36,
        pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
        description: 'Id of the message, where it is known',
      }),
    ),
    recipient: Type.Optional(
      Type.String({
        maxLength: 254,
        pattern: '^\\S+$',
        description: 'The whole address or number, where it is known',
      }),
    ),
  }),
  tools: [
    'get_communications_messages_id',
    'get_communications_messages',
    'get_communications_health',
    'get_communications_suppressions',
    'get_config_communications',
    'delete_communications_suppressions',
    'post_communications_messages_id_retry',
  ],
  text: ({ message, recipient }) => `# Find out why a message did not arrive

1. ${found(message, recipient)}
2. Read its \`status\`:
   - \`queued\`: it waits. \`dueAt\` says until when, where that is known (quiet hours, or a time that its sender named).
   - \`captured\`: no provider is set, so messages are kept here and go to nobody. That is the whole reason.
   - \`cancelled\`: somebody took it back before it went out; what it said is erased.
   - \`failed\`: \`error\` and \`provider\` say who refused it and how; \`timeline\` has the provider's own words.
   - \`sent\`: a provider took it and said nothing since. It may lie with the spam; without webhooks of the provider nothing more is known.
   - \`bounced\`, \`complained\`: the mailbox refused it, or its owner called it spam. Further ones are not sent.
3. Is it this message or all of them? \`get_communications_health\` says for each provider when it last took something, its last failure and how many wait. Several failures in a row with no success: the provider or its settings. Compare with \`get_config_communications\` (sender, host, keys are hidden) and say which key to look at. Do not change settings without the user's word.
4. Is it the recipient? \`get_communications_suppressions\` with \`search\` says whether the address gets no messages any more, why and since when.
5. What helps:
   - a wrong address: the account needs another one. Sending again does nothing.
   - a suppression after a bounce or by hand: \`delete_communications_suppressions\`, when the user knows that the address works again. After a complaint or an unsubscription only the recipient may undo it: do not.
   - the provider was away, or the settings are right again: \`post_communications_messages_id_retry\`, which takes messages that are \`failed\`. First one; when it is \`sent\`, ask before you send the others. Codes and links in old messages have ended: let the person ask for new ones instead.
6. Read the message once more, and report the reason, what you did, and how many others are in the same state.`,
});

function found(message: string | undefined, recipient: string | undefined): string {
  if (message !== undefined)
    return `Read it with \`get_communications_messages_id\`, \`id: "${message}"\`.`;
  const filter =
    recipient === undefined ? '`status: "failed"`' : `\`recipient: ${JSON.stringify(recipient)}\``;
  return `Find it with \`get_communications_messages\` and ${filter}, newest first, and read it with \`get_communications_messages_id\` (credentials that may only read get the list alone). Is there none, it was never written: look at what should have caused it.`;
}

export const communicationPrompts: readonly Prompt[] = [debugMessage];
