/** Mails and text messages that were sent, as clients of each line list them. */
import Type, { type Static } from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import { type MessageRow, type MessageStatus, messageStatuses } from '../queries.ts';
import { listRecords, messageByName, type RecordFilter } from '../record-queries.ts';
import type { MessageView, Outbox } from '../services/outbox.ts';
import { adminFacts, Id, nullable, Paging, Sent, Timestamp } from './shapes.ts';

type Database = Kernel['database'];

export const recordOperations = (database: Database, outbox: Outbox): readonly Operation[] => [
  emailsOperation(database),
  legacyEmailsOperation(database),
  emailOperation(database),
  statusOperation(database, outbox),
  resendOperation(outbox),
  smsListOperation(database),
  smsOperation(database),
];

/* The states that clients know. */

const emailStates = ['UNKNOWN', 'SENT', 'DELIVERED', 'BOUNCED', 'FAILED'] as const;
const smsStates = ['pending', 'sent', 'delivered', 'failed', 'bounced'] as const;

const emailStateOf = (status: MessageStatus): (typeof emailStates)[number] => {
  if (status === 'sent') return 'SENT';
  if (status === 'bounced') return 'BOUNCED';
  if (status === 'failed') return 'FAILED';
  return isDelivered(status) ? 'DELIVERED' : 'UNKNOWN';
};

const smsStateOf = (status: MessageStatus): (typeof smsStates)[number] => {
  if (status === 'sent' || status === 'failed' || status === 'bounced') return status;
  return isDelivered(status) ? 'delivered' : 'pending';
};

const isDelivered = (status: MessageStatus): boolean =>
  ['delivered', 'opened', 'clicked', 'complained'].includes(status);

/** Our states that stand behind one of theirs. */
const behind = <S extends string>(state: S | undefined, stateOf: (status: MessageStatus) => S) =>
  state === undefined ? undefined : messageStatuses.filter((status) => stateOf(status) === state);

/* On the wire. */

const shared = {
  _id: Type.String({ format: 'uuid' }),
  messageId: Type.String({ description: "The provider's name for it, else ours" }),
  template: nullable(Type.String()),
  provider: nullable(Type.String()),
  state: Type.String({ description: 'What GET /communications/messages calls its status' }),
  attempts: Type.Integer(),
  error: nullable(Type.String()),
  createdAt: Timestamp,
  updatedAt: Timestamp,
};
const EmailRecord = Type.Object({
  ...shared,
  sender: nullable(Type.String()),
  receiver: Type.String(),
  cc: Type.Array(Type.String()),
  replyTo: nullable(Type.String()),
  sendingDomain: nullable(Type.String()),
  status: Type.Enum(emailStates),
  contentKept: Type.Boolean({ description: 'It can be sent again' }),
});
const SmsRecord = Type.Object({
  ...shared,
  recipient: Type.String(),
  status: Type.Enum(smsStates),
  providerResponse: nullable(Type.String()),
});

const sharedOf = (row: MessageRow) => ({
  _id: row._id,
  messageId: row.providerId ?? row._id,
  template: row.template,
  provider: row.provider,
  state: row.status,
  attempts: row.attempts,
  error: row.error,
  createdAt: row.createdAt.toISOString(),
  updatedAt: (row.finishedAt ?? row.createdAt).toISOString(),
});

const emailRecord = (row: MessageRow): Static<typeof EmailRecord> => ({
  ...sharedOf(row),
  sender: row.sender,
  receiver: row.recipient,
  cc: [...(row.copies ?? [])],
  replyTo: row.replyTo,
  sendingDomain: row.sender?.slice(row.sender.indexOf('@') + 1) ?? null,
  status: emailStateOf(row.status),
  contentKept: row.contentSealed !== null,
});

const smsRecord = (row: MessageRow): Static<typeof SmsRecord> => ({
  ...sharedOf(row),
  recipient: row.recipient,
  status: smsStateOf(row.status),
  providerResponse: row.error,
});

/* Lists. */

const text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));

const listing = {
  ...Paging,
  sort: Type.Optional(
    Type.Enum(['createdAt', '-createdAt'], {
      description: 'What to order by; - in front: descending',
    }),
  ),
  search: text(254, 'Id, or a part of the recipient'),
};

const EmailQuery = Type.Object({
  ...listing,
  messageId: text(300, "The provider's name for it, or ours"),
  templateId: Type.Optional(Type.String({ format: 'uuid', description: 'Id of the template' })),
  receiver: text(254, 'A part of the address'),
  sender: text(254, 'A part of the address'),
  cc: text(254, 'The whole address'),
  replyTo: text(254, 'A part of the address'),
  startDate: Type.Optional({ ...Timestamp, description: 'Not before this time' }),
  endDate: Type.Optional({ ...Timestamp, description: 'Not after this time' }),
  status: Type.Optional(Type.Enum(emailStates, { description: 'How far it is' })),
});

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const searched = (search: string | undefined): Pick<RecordFilter, 'id' | 'recipient'> =>
  search === undefined ? {} : uuid.test(search) ? { id: search } : { recipient: search };

const dateOf = (written: string | undefined) =>
  written === undefined ? undefined : new Date(written);

const emailFilter = (query: Static<typeof EmailQuery>): RecordFilter => ({
  skip: query.skip,
  limit: query.limit,
  oldestFirst: query.sort === 'createdAt',
  ...searched(query.search),
  ...(query.receiver === undefined ? {} : { recipient: query.receiver }),
  messageId: query.messageId,
  templateId: query.templateId,
  sender: query.sender,
  copy: query.cc,
  replyTo: query.replyTo,
  from: dateOf(query.startDate),
  until: dateOf(query.endDate),
  statuses: behind(query.status, emailStateOf),
});

const emailsOperation = (database: Database): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.list',
    method: 'GET',
    path: '/email/emails',
    input: { query: EmailQuery },
    output: Type.Object({ emailDocuments: Type.Array(EmailRecord), count: Type.Integer() }),
    summary: 'List mails that were sent',
    description: 'Newest first, without what they say.',
    handler: async (_context, { query }) => {
      const { rows, count } = await listRecords(database, 'email', emailFilter(query));
      return { emailDocuments: rows.map(emailRecord), count };
    },
  });

const legacyEmailsOperation = (database: Database): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.listFormer',
    method: 'GET',
    path: '/email/record',
    legacy: true,
    mcp: false,
    input: { query: EmailQuery },
    output: Type.Object({ records: Type.Array(EmailRecord), count: Type.Integer() }),
    summary: 'List mails that were sent',
    description: 'For clients of the 0.16 line: the same list under its former name.',
    handler: async (_context, { query }) => {
      const { rows, count } = await listRecords(database, 'email', emailFilter(query));
      return { records: rows.map(emailRecord), count };
    },
  });

const found = (row: MessageRow | undefined): MessageRow => {
  if (!row) throw messageErrors.MESSAGE_NOT_FOUND();
  return row;
};

const emailOperation = (database: Database): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.get',
    method: 'GET',
    path: '/email/emails/:id',
    input: { params: Id },
    output: Type.Object({ emailRecord: EmailRecord }),
    errors: [messageErrors.MESSAGE_NOT_FOUND],
    summary: 'Read a mail that was sent',
    handler: async (_context, { params }) => ({
      emailRecord: emailRecord(found(await messageByName(database, 'email', params.id))),
    }),
  });

const StatusInfo = Type.Object({
  messageId: Type.String(),
  status: Type.Enum(emailStates),
  provider: nullable(Type.String()),
  providerId: nullable(Type.String()),
  events: Type.Array(
    Type.Object({
      kind: Type.String(),
      provider: nullable(Type.String()),
      detail: nullable(Type.String()),
      at: Timestamp,
    }),
  ),
});

const MailName = Type.String({ minLength: 1, maxLength: 300, description: 'Id of the mail' });

const statusOperation = (database: Database, outbox: Outbox): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.status',
    method: 'GET',
    path: '/email/status',
    input: {
      query: Type.Object({ messageId: MailName }),
    },
    output: Type.Object({ statusInfo: StatusInfo }),
    errors: [messageErrors.MESSAGE_NOT_FOUND],
    summary: 'Ask what became of a mail',
    description:
      "By the provider's name for it, or by ours: what was tried, and what the provider reported.",
    handler: async (_context, { query }) => {
      const { _id } = found(await messageByName(database, 'email', query.messageId));
      return { statusInfo: statusInfo(await outbox.read(undefined, _id)) };
    },
  });

const statusInfo = ({
  _id,
  status,
  provider,
  providerId,
  timeline = [],
}: MessageView): Static<typeof StatusInfo> => ({
  messageId: _id,
  status: emailStateOf(status),
  provider,
  providerId,
  events: timeline.map((event) => ({ ...event })),
});

const resendOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.resend',
    method: 'POST',
    path: '/email/resend',
    openWorld: true,
    input: {
      body: Type.Object({
        id: Type.Optional(Type.String({ format: 'uuid', description: 'Its id' })),
        emailRecordId: Type.Optional(
          Type.String({ format: 'uuid', description: 'Another name for id' }),
        ),
      }),
    },
    output: Sent,
    errors: [
      messageErrors.MESSAGE_NOT_FOUND,
      messageErrors.MESSAGE_CONTENT_MISSING,
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.RECIPIENT_OPTED_OUT,
    ],
    summary: 'Send a mail once more',
    description:
      'As it was written then, as a message of its own. Sent mails can be sent again while email.storeEmails keeps what they say; captured and failed ones always.',
    handler: async (_context, { body }) => ({
      message: 'Email queued',
      messageId: await outbox.resend(namedId(body)),
    }),
  });

function namedId({
  id,
  emailRecordId,
}: {
  readonly id?: string | undefined;
  readonly emailRecordId?: string | undefined;
}): string {
  if (id !== undefined && emailRecordId !== undefined && id !== emailRecordId)
    throw invalid('emailRecordId', 'same', 'this is another name for id: give one of them');
  const named = id ?? emailRecordId;
  if (named === undefined) throw invalid('id', 'required', 'give the id of a mail');
  return named;
}

const smsListOperation = (database: Database): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.sms.list',
    method: 'GET',
    path: '/sms/messages',
    input: {
      query: Type.Object({
        ...listing,
        status: Type.Optional(Type.Enum(smsStates, { description: 'How far it is' })),
      }),
    },
    output: Type.Object({ smsDocuments: Type.Array(SmsRecord), count: Type.Integer() }),
    summary: 'List text messages that were sent',
    description: 'Newest first, without what they say.',
    handler: async (_context, { query: { skip, limit, sort, search, status } }) => {
      const { rows, count } = await listRecords(database, 'sms', {
        skip,
        limit,
        oldestFirst: sort === 'createdAt',
        ...searched(search),
        statuses: behind(status, smsStateOf),
      });
      return { smsDocuments: rows.map(smsRecord), count };
    },
  });

const smsOperation = (database: Database): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.sms.get',
    method: 'GET',
    path: '/sms/messages/:id',
    input: { params: Id },
    output: Type.Object({ smsRecord: SmsRecord }),
    errors: [messageErrors.MESSAGE_NOT_FOUND],
    summary: 'Read a text message that was sent',
    handler: async (_context, { params }) => ({
      smsRecord: smsRecord(found(await messageByName(database, 'sms', params.id))),
    }),
  });
