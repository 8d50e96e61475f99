/** A page of a broadcast: who of it can and wants to be reached, and what they are written. A few statements for all of them. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import type { Audience, Listed } from '../broadcast-queries.ts';
import { suppressedOf } from '../delivery-queries.ts';
import { addressesOf, lockUsers, type UserAddress } from '../preference-queries.ts';
import { usersWithDevices } from '../push-queries.ts';
import type { Channel } from '../queries.ts';
import type { Addresses, Composer, MassWriter, UnifiedMessage, Written } from './composer.ts';
import type { PushNote } from './content.ts';
import type { Inbox } from './inbox.ts';
import { type MessageStore, pushContent } from './messages.ts';
import type { OfModule } from './outgoing.ts';
import { isEnabled, type Preferences } from './preferences.ts';

/** What devices are told, as an operator or a module wrote it. */
export interface DeviceNote extends Partial<OfModule> {
  readonly note: PushNote;
  readonly platform?: string | undefined;
  readonly category?: string | undefined;
  /** Whether it is put into the inbox. */
  readonly stores: boolean;
  readonly about?: string | undefined;
}

export type BroadcastContent =
  | { readonly channel: 'push'; readonly devices: DeviceNote }
  | { readonly channel: Channel; readonly message: UnifiedMessage; readonly sendAt?: string };

export interface PageParts extends Pick<Kernel, 'database' | 'schemas'> {
  readonly composer: Composer;
  readonly messages: MessageStore;
  readonly inbox: Inbox;
  readonly preferences: Pick<Preferences, 'choices'>;
}

/** Somebody whom a message is written to in order to see whether it can be. */
export const anybody = { userId: newId(), email: 'reader@example.com', phone: '+15550100000' };

interface Reader {
  /** In the page. */
  readonly place: number;
  readonly to: Addresses;
  readonly address: string;
  readonly userId: string | null;
}

/** Characters of a page, beside the last message of it: all of them are in memory, and go to the database, at once. */
const maxCharacters = 4_000_000;

/** How far a page was written: `taken` of its recipients, and how many messages that made. */
export interface WrittenPage {
  readonly taken: number;
  readonly queued: number;
}

/**
 * Writes to all of a page that can and want to be reached, or to the first of them where the messages are long. Throws
 * what is wrong with the message itself, such as a part of its template that was deleted meanwhile: nobody is passed over
 * for that.
 */
export async function writePage(
  dependencies: PageParts,
  transaction: Transaction,
  {
    id,
    content,
    page,
    audience,
  }: {
    readonly id: string;
    readonly content: BroadcastContent;
    readonly page: readonly Listed[];
    readonly audience: Audience;
  },
): Promise<WrittenPage> {
  const { messages, preferences, inbox } = dependencies;
  const writer = await writerOf(dependencies, content);
  await writer.write(transaction, { to: anybody, choices: undefined });
  // Whom an operator names is meant, also while they are blocked.
  const asked = { channel: content.channel, withBlocked: audience === 'listed' };
  const readers = await readersOf(dependencies, transaction, page, asked);
  const userIds = readers.flatMap(({ userId }) => userId ?? []);
  const choices = await preferences.choices(transaction, userIds);
  const reachable = await reachableOf(transaction, { channel: content.channel, readers, writer });
  const stored: (readonly [Written['prepared'], object])[] = [];
  const entries: Parameters<Inbox['add']>[1][number][] = [];
  const sendAt = 'sendAt' in content && content.sendAt ? new Date(content.sendAt) : undefined;
  const { category, critical } = writer.about;
  const pause = createTimeSlices();
  let taken = page.length;
  let characters = 0;
  for (const reader of readers) {
    await pause();
    if (characters > maxCharacters) {
      taken = reader.place;
      break;
    }
    const chosen = choices.get(reader.userId ?? '');
    const written = await writer
      .write(transaction, { to: reader.to, choices: chosen })
      .catch(unlessTheirs);
    if (!written) continue;
    characters += charactersOf(written);
    if (reachable.has(reader))
      stored.push([
        written.prepared,
        { ...writer.about, choices: chosen, broadcastId: id, sendAt },
      ]);
    const inInbox =
      !chosen || category === undefined || critical || isEnabled(chosen, category, 'inbox');
    if (written.entry && reader.userId !== null && inInbox)
      entries.push(entryOf(reader.userId, written.entry, { content, category }));
  }
  const ids = await messages.storeAll(transaction, stored);
  await inbox.add(transaction, entries);
  return { taken, queued: ids.filter((one) => one !== undefined).length };
}

const charactersOf = ({ prepared: { content } }: Written): number =>
  content.text.length + (content.html?.length ?? 0);

/** What is wrong with one recipient keeps nothing from the others. */
function unlessTheirs(error: unknown): undefined {
  if (error instanceof PenstockError && error.status === 400) return undefined;
  throw error;
}

function entryOf(
  userId: string,
  { title, body }: NonNullable<Written['entry']>,
  {
    content,
    category,
  }: { readonly content: BroadcastContent; readonly category: string | undefined },
) {
  const devices = 'devices' in content ? content.devices : undefined;
  return {
    id: newId(),
    userId,
    title,
    body: devices ? (devices.note.body ?? null) : body,
    data: devices?.note.data ?? null,
    platform: devices?.platform ?? null,
    category: category ?? null,
  };
}

/** Those of a page that have an address of this kind. Users stay until the page is written, or are gone before. */
async function readersOf(
  { schemas }: PageParts,
  transaction: Transaction,
  page: readonly Listed[],
  { channel, withBlocked }: { readonly channel: Channel; readonly withBlocked: boolean },
): Promise<readonly Reader[]> {
  const userIds = page.flatMap(({ userId }) => userId ?? []);
  const isAsked = userIds.length > 0 && schemas.get('User') !== undefined;
  const there = isAsked ? await lockUsers(transaction, userIds, withBlocked) : undefined;
  const known = isAsked && channel !== 'push' ? await addressesOf(transaction, userIds) : [];
  const users = new Map(known.map((user) => [user.id, user]));
  return page.flatMap(({ userId, address }, place) => {
    if (userId !== null && there?.has(userId) === false) return [];
    const own = userId === null ? undefined : ownAddress(channel, userId, users.get(userId));
    const where = address ?? own;
    if (!where) return [];
    const named = channel === 'push' ? {} : { [channel === 'email' ? 'email' : 'phone']: where };
    const to = { ...named, ...(userId === null ? {} : { userId }) };
    return [{ place, userId, address: where, to }];
  });
}

const ownAddress = (
  channel: Channel,
  userId: string,
  user: UserAddress | undefined,
): string | null | undefined => ({ push: userId, email: user?.email, sms: user?.phone })[channel];

/** Those who have a device where one is needed, and whom nothing is kept from. Two statements for a page. */
async function reachableOf(
  transaction: Transaction,
  {
    channel,
    readers,
    writer: { about },
  }: {
    readonly channel: Channel;
    readonly readers: readonly Reader[];
    readonly writer: MassWriter;
  },
): Promise<ReadonlySet<Reader>> {
  const named = readers.map((reader) => ({ reader, id: newId() }));
  const suppressed = await suppressedOf(
    transaction,
    named.map(({ reader, id }) => ({
      id,
      channel,
      recipient: reader.address,
      category: about.category ?? null,
      critical: about.critical ?? about.category === undefined,
    })),
  );
  const withDevice =
    channel === 'push'
      ? await usersWithDevices(
          transaction,
          readers.map(({ address }) => address),
        )
      : undefined;
  return new Set(
    named.flatMap(({ reader, id }) =>
      suppressed.has(id) || withDevice?.has(reader.address) === false ? [] : [reader],
    ),
  );
}

export async function writerOf(
  { composer }: PageParts,
  content: BroadcastContent,
): Promise<MassWriter> {
  if ('message' in content) return composer.writer(content.channel, content.message);
  const { note, platform, category, stores, module } = content.devices;
  const prepared = {
    channel: 'push',
    template: null,
    content: pushContent({ note, platform, module }),
  } as const;
  const entry = stores ? { title: note.title ?? '', body: note.body ?? '' } : undefined;
  return {
    about: { category },
    write: async (_transaction, { to: { userId = '' } }) => ({
      prepared: { ...prepared, recipient: userId, userId },
      entry,
    }),
  };
}
