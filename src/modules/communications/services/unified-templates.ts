/** One text for several channels: kept by operators, filled for each message. */
import type { RecordText } from '../../../data/records/store.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { messageErrors } from '../errors.ts';
import type { Channel } from '../queries.ts';
import { inLanguage, requireLocales } from '../readers.ts';
import { requireSenderForm } from '../recipients.ts';
import { communicationTemplateSchema } from '../schemas.ts';
import {
  allEmailTemplates,
  isNameTaken,
  lockTemplateNames,
  type StoredUnified,
  templateNames,
  unifiedByName,
} from '../template-queries.ts';
import { parsePart } from './template-language.ts';
import {
  furtherVariables,
  nameContains,
  removeTemplate,
  type TemplateFilter,
  type Translation,
  unlessMissing,
} from './templates.ts';

/** What each channel says. */
export interface Blocks {
  readonly email?: { readonly subject: string; readonly body: string; readonly sender?: string };
  readonly push?: { readonly title: string; readonly body: string };
  readonly sms?: { readonly message: string };
}

export interface UnifiedInput extends Blocks {
  readonly name: string;
  readonly channels: readonly Channel[];
  readonly templateDescription?: string | undefined;
  readonly variables?: readonly string[] | undefined;
  readonly translations?: Readonly<Record<string, Blocks>> | undefined;
  readonly category?: string | undefined;
  readonly critical?: boolean | undefined;
}

/** What a message of one channel is written from. */
export interface ChannelTexts {
  readonly subject?: string;
  readonly body: string;
  readonly sender?: string | undefined;
}

export interface UnifiedTemplate {
  readonly channels: readonly string[];
  readonly category: string | undefined;
  readonly critical: boolean;
  /** In a language, else in the first one. Throws 400 for a channel that it is not for. */
  texts(channel: Channel, locale: string | undefined): ChannelTexts;
}

export interface MigrationPlan {
  readonly sourceId: string;
  readonly sourceName: string;
  readonly target: UnifiedInput;
  readonly skipped?: boolean;
  readonly warning?: string;
}

export interface MigrationOptions {
  readonly emailTemplateId?: string | undefined;
  readonly apply: boolean;
  readonly skipExisting: boolean;
  readonly deleteSource: boolean;
  /** Throws 403 for a mail template that whoever asks may not delete. */
  readonly requireRemovable: (name: string) => Promise<void>;
}

interface Migrated {
  readonly planned: readonly MigrationPlan[];
  readonly created: readonly RecordText[];
}

export interface UnifiedTemplates {
  list(filter: TemplateFilter): Promise<string>;
  /** Throws TEMPLATE_NOT_FOUND. */
  get(id: string): Promise<RecordText>;
  create(input: UnifiedInput): Promise<RecordText>;
  /** What is not said stays. */
  update(id: string, change: Partial<UnifiedInput>): Promise<RecordText>;
  /** What is not said goes. */
  replace(id: string, input: UnifiedInput): Promise<RecordText>;
  remove(id: string): Promise<void>;
  /** Nothing when there is none of that name. */
  find(name: string): Promise<UnifiedTemplate | undefined>;
  /** What mail templates would become, or have become with `apply`; throws TEMPLATE_EXISTS. */
  migrate(options: MigrationOptions): Promise<Migrated>;
}

const schema = communicationTemplateSchema.name;
const asModule = system('communications');
type Dependencies = Pick<Kernel, 'database' | 'records' | 'jobs'>;

/** Of what a template does not have, as it is stored. */
const none = {
  email: null,
  push: null,
  sms: null,
  translations: null,
  templateDescription: null,
  category: null,
};

export function createUnifiedTemplates(dependencies: Dependencies): UnifiedTemplates {
  const { database, records } = dependencies;
  const create = (input: UnifiedInput): Promise<RecordText> => {
    const complete = checked(input);
    return database.transaction(async (transaction) => {
      await requireFree(transaction, complete.name, null);
      return records.create(asModule, schema, { ...complete });
    });
  };
  const get = (id: string) => unlessMissing(() => records.get(asModule, schema, id));
  const write = async (
    transaction: Transaction,
    id: string,
    input: UnifiedInput,
  ): Promise<RecordText> => {
    const complete = checked(input);
    await requireFree(transaction, complete.name, id);
    return records.update(asModule, schema, id, { ...none, ...complete });
  };
  return {
    list: ({ search, skip, limit, sort }) =>
      records.select(asModule, schema, {
        skip,
        limit,
        sort: sort.length > 0 ? sort : ['name'],
        filter: nameContains(search),
      }),
    get,
    create,
    update: (id, change) =>
      database.transaction(async (transaction) => {
        // What is not said stays as it is now: others may just be changing it.
        await lockTemplateNames(transaction);
        const stored = inputOf(JSON.parse((await get(id)).json) as StoredUnified);
        // Names that texts use are found anew.
        const { variables: _found, ...before } = stored;
        return write(transaction, id, { ...before, ...change });
      }),
    replace: (id, input) => database.transaction((transaction) => write(transaction, id, input)),
    remove: async (id) => void (await unlessMissing(() => records.remove(asModule, schema, id))),
    async find(name) {
      const stored = await unifiedByName(database, name);
      return stored && templateOf(stored);
    },
    migrate: (options) =>
      database.transaction((transaction) =>
        migrate({ ...dependencies, transaction }, create, options),
      ),
  };
}

async function migrate(
  { records, jobs, transaction }: Dependencies & { readonly transaction: Transaction },
  create: UnifiedTemplates['create'],
  { emailTemplateId, apply, skipExisting, deleteSource, requireRemovable }: MigrationOptions,
): Promise<Migrated> {
  // What is moved is what is there: others may just be changing it.
  await lockTemplateNames(transaction);
  const sources = await allEmailTemplates(transaction, emailTemplateId ?? null);
  if (emailTemplateId !== undefined && sources.length === 0)
    throw messageErrors.TEMPLATE_NOT_FOUND();
  const planned: MigrationPlan[] = [];
  const created: RecordText[] = [];
  const taken = await templateNames(transaction);
  for (const source of sources) {
    // Names are free among both kinds: the source makes room, or the new one gets another name.
    if (deleteSource) taken.delete(source.name);
    const plan = planOf(source, { taken, deleteSource });
    if (plan.skipped && !skipExisting) throw messageErrors.TEMPLATE_EXISTS();
    planned.push(plan);
    taken.add(plan.target.name);
    if (!apply || plan.skipped) continue;
    if (deleteSource) {
      await requireRemovable(source.name);
      await removeTemplate({ records, jobs }, transaction, source.id);
    }
    created.push(await create(plan.target));
  }
  return { planned, created };
}

type Source = Awaited<ReturnType<typeof allEmailTemplates>>[number];

function planOf(
  { id, name, sender, translations, ...source }: Source,
  { taken, deleteSource }: { readonly taken: ReadonlySet<string>; readonly deleteSource: boolean },
): MigrationPlan {
  const { subject, body } = source;
  const named = furtherVariables({ subject, body, variables: source.variables ?? [] });
  const languages = Object.entries(translations ?? {}).map(
    ([locale, texts]) => [locale, { email: texts as Translation }] as const,
  );
  const target: UnifiedInput = {
    name: deleteSource ? name : `${cutText(name, 92)}-unified`,
    channels: ['email'],
    email: { subject, body, ...(sender ? { sender } : {}) },
    ...(languages.length === 0 ? {} : { translations: Object.fromEntries(languages) }),
    ...(named.length === 0 ? {} : { variables: source.variables ?? [] }),
  };
  return {
    sourceId: id,
    sourceName: name,
    target,
    ...(taken.has(target.name) ? { skipped: true } : {}),
    ...(deleteSource
      ? {}
      : { warning: 'The mail template keeps its name, so this one gets another' }),
  };
}

async function requireFree(
  transaction: Parameters<typeof isNameTaken>[0],
  name: string,
  except: string | null,
): Promise<void> {
  await lockTemplateNames(transaction);
  if (await isNameTaken(transaction, name, except)) throw messageErrors.TEMPLATE_EXISTS();
}

/** As it is stored, with what follows from it. Throws 400. */
export function checked(
  input: UnifiedInput,
): UnifiedInput & { readonly variables: readonly string[] } {
  const name = input.name.trim();
  if (name === '') throw invalid('name', 'required', 'give a name');
  const { channels, translations = {} } = input;
  if (channels.length === 0) throw invalid('channels', 'minItems', 'name at least one channel');
  if (new Set(channels).size !== channels.length)
    throw invalid('channels', 'uniqueItems', 'name each channel once');
  const blocks = blocksOf(input, channels, '');
  requireLocales(translations);
  const translated = Object.entries(translations).map(
    ([locale, texts]) =>
      [locale, blocksOf(texts, channels, `translations.${locale}.`, true).texts] as const,
  );
  const { templateDescription, category, critical = false, variables } = input;
  return {
    name,
    channels,
    ...blocks.texts,
    ...(translated.length === 0 ? {} : { translations: Object.fromEntries(translated) }),
    ...(templateDescription === undefined ? {} : { templateDescription }),
    ...(category === undefined ? {} : { category }),
    critical,
    variables: variables && variables.length > 0 ? variables : blocks.variables,
  };
}

const needs: Readonly<Record<Channel, readonly string[]>> = {
  email: ['subject', 'body'],
  push: ['title', 'body'],
  sms: ['message'],
};

type Block = Readonly<Record<string, string>>;

/** Blocks of the chosen channels; those of others are left out. */
function blocksOf(
  given: Blocks,
  channels: readonly Channel[],
  place: string,
  partly = false,
): { readonly texts: Blocks; readonly variables: readonly string[] } {
  const texts: Record<string, Block> = {};
  for (const channel of channels) {
    const block = given[channel] as Block | undefined;
    if (block) texts[channel] = block;
    else if (!partly) throw invalid(`${place}${channel}`, 'required', `say what ${channel} says`);
  }
  const variables = channels.flatMap((channel) =>
    texts[channel] ? namesIn(texts[channel], channel, place) : [],
  );
  if (given.email?.sender) requireSenderForm(given.email.sender, `${place}email.sender`);
  return { texts, variables: [...new Set(variables)] };
}

/** Names of the variables of one block. Throws 400 for what is missing, and for what is no template. */
const namesIn = (block: Block, channel: Channel, place: string): readonly string[] =>
  needs[channel].flatMap((key) => {
    const path = `${place}${channel}.${key}`;
    if (!block[key]) throw invalid(path, 'required', `give a ${key}`);
    return parsePart(path, block[key]).variables;
  });

/** A stored template as it would be written. */
export function inputOf(stored: Omit<StoredUnified, 'id'>): UnifiedInput {
  const { name, channels, email, push, sms, translations, templateDescription, category } = stored;
  const parts = { email, push, sms, translations, templateDescription, category };
  const given = Object.entries(parts).filter(([, part]) => part !== null && part !== undefined);
  return {
    name,
    channels: channels as readonly Channel[],
    ...Object.fromEntries(given),
    critical: stored.critical,
    variables: stored.variables ?? [],
  };
}

function templateOf(stored: StoredUnified): UnifiedTemplate {
  const { channels, category, critical } = stored;
  return {
    channels,
    category: category ?? undefined,
    critical,
    texts(channel, locale) {
      if (!channels.includes(channel))
        throw invalid('channel', 'template', `the template ${stored.name} is not for ${channel}`);
      const translations = stored.translations as Readonly<Record<string, Blocks>> | null;
      const there = Object.fromEntries(
        Object.entries(translations ?? {}).filter(([, blocks]) => blocks[channel] !== undefined),
      );
      const first = stored as Blocks;
      const { email, push, sms } = { ...first, ...inLanguage(there, locale) };
      // Who writes is the same in every language, unless one says otherwise.
      if (channel === 'email' && email) return { sender: first.email?.sender, ...email };
      if (channel === 'push' && push) return { subject: push.title, body: push.body };
      return { body: sms?.message ?? '' };
    },
  };
}
