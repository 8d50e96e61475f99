/**
 * The configurations of mail, text messages and push as the 0.16 line kept them, where each was a module of its own: what
 * of them stands where in that of communications (spec/compat-v0.16.md section 6).
 */
import { invalid } from '../../../kernel/errors.ts';
import { emailTransports } from './email.ts';
import { pushProviders } from './push.ts';
import { smsProviders } from './sms.ts';

export type Tree = Readonly<Record<string, unknown>>;

/** One of the former modules. */
export interface LegacyModule {
  readonly name: 'email' | 'sms' | 'pushNotifications';
  /** Key that names the provider today. */
  readonly providerKey: 'transport' | 'providerName';
  readonly providers: readonly string[];
  /** A provider's block as it is stored today, and keys of the channel that followed from it. */
  block(provider: string, given: Tree): { readonly block: Tree; readonly channel?: Tree };
  /** Where the block stands. */
  place(provider: string, block: Tree): Tree;
  read(channel: Tree, provider: string): unknown;
}

export const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const renamed = (given: Tree, names: Readonly<Record<string, string>>): Tree =>
  Object.fromEntries(Object.entries(given).map(([key, value]) => [names[key] ?? key, value]));

export const email: LegacyModule = {
  name: 'email',
  providerKey: 'transport',
  providers: emailTransports,
  block(provider, { domain, ...given }) {
    const channel = domain === undefined ? {} : { sendingDomain: domain };
    if (provider === 'mailgun')
      return { block: domain === undefined ? given : { ...given, domain }, channel };
    if (provider !== 'smtp') return { block: given, channel };
    const { username, password, ...server } = given;
    const auth = Object.entries({ username, password }).filter(([, value]) => value !== undefined);
    return {
      block: auth.length === 0 ? server : { ...server, auth: Object.fromEntries(auth) },
      channel,
    };
  },
  place: (provider, block) => ({ transportSettings: { [provider]: block } }),
  read: ({ transportSettings, sendingDomain }, provider) => {
    const block = isTree(transportSettings) ? transportSettings[provider] : undefined;
    return isTree(block) ? { domain: sendingDomain, ...block } : {};
  },
};

export const sms: LegacyModule = {
  name: 'sms',
  providerKey: 'providerName',
  providers: smsProviders,
  // Codes are made here: what was set about the provider's own is dropped.
  block: (_provider, { verify: _verify, ...given }) => ({
    block: renamed(given, { accountSid: 'accountSID' }),
  }),
  place: (provider, block) => ({ [provider]: block }),
  read: (channel, provider) => {
    const block = channel[provider];
    if (!isTree(block)) return {};
    return 'accountSID' in block
      ? {
          ...block,
          accountSid: block.accountSID,
          verify: { active: false, serviceSid: '' },
        }
      : block;
  },
};

export const push: LegacyModule = {
  name: 'pushNotifications',
  providerKey: 'providerName',
  providers: pushProviders,
  // A whole service account, as the console hands it out.
  block: (_provider, given) => {
    const known = renamed(given, {
      project_id: 'projectId',
      private_key: 'privateKey',
      client_email: 'clientEmail',
    });
    if (!('project_id' in given)) return { block: known };
    const { projectId, privateKey, clientEmail } = known;
    return { block: { projectId, privateKey, clientEmail } };
  },
  place: (provider, block) => ({ [provider]: block }),
  read: (channel, provider) => channel[provider] ?? {},
};

/** Other names of providers. */
const otherNames = new Map([
  ['ses', 'amazonSes'],
  ['aws', 'amazonSes'],
  ['sns', 'awsSns'],
  ['messagebird', 'messageBird'],
  ['clicksend', 'clickSend'],
]);

/** Throws 400 for a provider that is not known. */
export function patchOf(legacy: LegacyModule, body: Tree): Tree {
  const given = isTree(body.config) ? body.config : body;
  const { provider: named, config: _wrapped, ...rest } = given;
  const provider = providerOf(legacy, named ?? rest[legacy.providerKey]);
  const blocks = Object.entries(rest).filter(
    ([key, value]) => isTree(value) && nameOf(legacy, key) !== undefined,
  );
  const others = Object.fromEntries(
    Object.entries(rest).filter(([key]) => !blocks.some(([name]) => name === key)),
  );
  const placed = blocks.map(([key, value]) => {
    const name = nameOf(legacy, key) ?? key;
    const { block, channel = {} } = legacy.block(name, value as Tree);
    return merged(legacy.place(name, block), channel);
  });
  // A whole service account may stand where its block would.
  const account = legacy.name === 'pushNotifications' && 'project_id' in rest;
  const patch = account
    ? { active: rest.active, firebase: legacy.block('firebase', rest).block }
    : placed.reduce(merged, others);
  const chosen = account ? (provider ?? 'firebase') : provider;
  if (chosen === undefined) return withoutGaps(patch);
  return withoutGaps({ active: true, ...withoutGaps(patch), [legacy.providerKey]: chosen });
}

const withoutGaps = (tree: Tree): Tree =>
  Object.fromEntries(Object.entries(tree).filter(([, value]) => value !== undefined));

const nameOf = ({ providers }: LegacyModule, key: string): string | undefined =>
  providers.find((name) => name === key) ??
  providers.find((name) => name === otherNames.get(key.toLowerCase()));

function providerOf(legacy: LegacyModule, named: unknown): string | undefined {
  if (named === undefined) return undefined;
  const provider = typeof named === 'string' ? nameOf(legacy, named) : undefined;
  if (provider === undefined)
    throw invalid('provider', 'enum', `must be one of ${legacy.providers.join(', ')}`);
  return provider;
}

function merged(one: Tree, other: Tree): Tree {
  const result: Record<string, unknown> = { ...one };
  for (const [key, value] of Object.entries(other))
    result[key] = isTree(value) && isTree(result[key]) ? merged(result[key], value) : value;
  return result;
}

const all = [email, sms, push] as const;

export const legacyModules = all.map(({ name }) => name);

/** What a document of a former module says, as a patch of the configuration of communications. Throws 400. */
export const legacyDocuments: ReadonlyMap<string, (document: Tree) => Tree> = new Map(
  all.map((legacy) => [legacy.name, (document) => ({ [legacy.name]: patchOf(legacy, document) })]),
);
