/** What users choose about messages, and the page on which one kind is refused with a click. */
import Type, { type Static } from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { escapeHtml, messagePage, page } from '../../../kernel/operations/pages.ts';
import { messageErrors } from '../errors.ts';
import type { ChoicesRow } from '../preference-queries.ts';
import { clockOf, localePattern } from '../readers.ts';
import type { Preferences } from '../services/preferences.ts';
import type { Unsubscribe } from '../services/suppressions.ts';
import { nullable, userFacts, userOf } from './shapes.ts';

export const preferenceOperations = (
  preferences: Preferences,
  unsubscribe: Unsubscribe,
): readonly Operation[] => [
  readOperation(preferences),
  changeOperation(preferences),
  pageOperation(unsubscribe),
  unsubscribeOperation(unsubscribe),
];

const Preference = Type.Object({
  category: Type.String({
    pattern: '^(?:\\*|[A-Za-z0-9_.-]{1,50})$',
    description: 'Kind of message; * for all that say nothing else',
  }),
  channel: Type.Enum(['email', 'sms', 'push', 'inbox']),
  enabled: Type.Boolean(),
});
const Clock = Type.String({ pattern: '^(?:[01][0-9]|2[0-3]):[0-5][0-9]$' });
const QuietHours = Type.Object(
  { start: Clock, end: Clock },
  { description: 'By your clock; equal times: never' },
);

const Choices = Type.Object({
  preferences: Type.Array(Preference),
  locale: nullable(Type.String()),
  timezone: nullable(Type.String()),
  quietHours: nullable(QuietHours),
});

const onWire = ({
  preferences,
  locale,
  timezone,
  quietStart,
  quietEnd,
}: ChoicesRow): Static<typeof Choices> => ({
  preferences: preferences.map((one) => ({ ...one }) as Static<typeof Preference>),
  locale,
  timezone,
  quietHours:
    quietStart === null || quietEnd === null
      ? null
      : { start: clockOf(quietStart), end: clockOf(quietEnd) },
});

const path = '/notifications/preferences';

const readOperation = (preferences: Preferences): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.preferences.get',
    method: 'GET',
    path,
    input: {},
    output: Choices,
    summary: 'Read what you chose about messages',
    description: 'What is not listed you get. `quietHours` null: as the platform has them.',
    handler: async (context) => onWire(await preferences.get(userOf(context).userId)),
  });

const changeOperation = (preferences: Preferences): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.preferences.change',
    method: 'PATCH',
    path,
    input: {
      body: Type.Object({
        preferences: Type.Optional(Type.Array(Preference, { maxItems: 200 })),
        locale: Type.Optional(nullable(Type.String({ pattern: localePattern }))),
        timezone: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 60 }))),
        quietHours: Type.Optional(nullable(QuietHours)),
      }),
    },
    output: Choices,
    summary: 'Choose which messages you get, in which language, and when',
    description: 'What is not named stays. Messages that belong to your account always come.',
    handler: async (context, { body }) =>
      onWire(await preferences.change(userOf(context).userId, body)),
  });

const hook = {
  surface: 'client',
  access: 'public',
  limit: { requests: 60, seconds: 60 },
  path: '/hook/communications/unsubscribe/:token',
  graphql: false,
  mcp: false,
  idempotency: false,
  errors: [messageErrors.UNSUBSCRIBE_INVALID],
} as const;
const Token = Type.Object({ token: Type.String({ minLength: 20, maxLength: 1500 }) });
const Html = Type.String({ contentMediaType: 'text/html' });

const pageOperation = (unsubscribe: Unsubscribe): Operation =>
  defineOperation({
    ...hook,
    id: 'communications.unsubscribe.page',
    method: 'GET',
    input: { params: Token },
    output: Html,
    textAnswer: 'A page with one button.',
    textType: 'text/html; charset=utf-8',
    summary: 'Ask before a kind of message is refused',
    description: 'Changes nothing: programs that follow links in mails refuse nothing.',
    handler: (_context, { params }) => {
      const { category } = unsubscribe.read(params.token);
      return page({
        title: 'Unsubscribe',
        inside: `<p>No more messages of the kind <b>${escapeHtml(category)}</b>?</p><form method="post"><button>Unsubscribe</button></form>`,
        formAction: "'self'",
      });
    },
  });

const unsubscribeOperation = (unsubscribe: Unsubscribe): Operation =>
  defineOperation({
    ...hook,
    id: 'communications.unsubscribe.act',
    method: 'POST',
    input: {
      params: Token,
      body: Type.Object({ 'List-Unsubscribe': Type.Optional(Type.String({ maxLength: 100 })) }),
    },
    bodyTypes: ['json', 'form'],
    output: Html,
    textAnswer: 'A page that says so.',
    textType: 'text/html; charset=utf-8',
    summary: 'Refuse a kind of message',
    description: 'What the button of the page sends, and mail programs by themselves (RFC 8058).',
    handler: async (_context, { params }) => {
      await unsubscribe.act(params.token);
      return messagePage('Unsubscribed', 'You will get no more messages of this kind.');
    },
  });
