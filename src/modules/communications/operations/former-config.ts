/**
 * The configuration of mail, text messages and push in the form of the 0.16 line, where each was a module of its own:
 * views of the configuration of communications (spec/compat-v0.16.md section 6).
 */
import Type from 'typebox';
import type { ConfigService } from '../../../kernel/config/config-service.ts';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { emailTransports } from '../config/email.ts';
import { pushProviders } from '../config/push.ts';
import { smsProviders } from '../config/sms.ts';
import { adminFacts } from './shapes.ts';

type Tree = Readonly<Record<string, unknown>>;

/** One of the former modules. */
interface FormerModule {
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

export const formerModules = ['email', 'sms', 'pushNotifications'] as const;

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const renamed = (given: Tree, names: Readonly<Record<string, string>>): Tree =>
  Object.fromEntries(Object.entries(given).map(([key, value]) => [names[key] ?? key, value]));

const email: FormerModule = {
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

const sms: FormerModule = {
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

const push: FormerModule = {
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

export const formerConfigOperations = (config: ConfigService): readonly Operation[] =>
  [email, sms, push].flatMap((former) => [
    readOperation(config, former, `/admin/${former.name}/config`, 'bare'),
    changeOperation(config, former, `/admin/${former.name}/config`, 'bare'),
    readOperation(config, former, `/config/${former.name}`, 'wrapped'),
    changeOperation(config, former, `/config/${former.name}`, 'wrapped'),
  ]);

type Form = 'bare' | 'wrapped';

const facts = { ...adminFacts, legacy: true, mcp: false, graphql: false } as const;
const View = Type.Record(Type.String(), Type.Unknown());
const Answer = Type.Object({ config: Type.Optional(View) }, { additionalProperties: true });

const readOperation = (
  config: ConfigService,
  former: FormerModule,
  path: string,
  form: Form,
): Operation =>
  defineOperation({
    ...facts,
    id: `communications.former.${former.name}.read.${form}`,
    method: 'GET',
    path,
    input: {},
    output: Answer,
    summary: `Read the configuration of ${former.name}`,
    description:
      'A view of that of communications, for clients of the 0.16 line. Secrets are masked.',
    handler: async ({ caller }) => {
      const stored = await config.read(caller, 'communications');
      return answered(viewOf(former, stored.config), form);
    },
  });

const changeOperation = (
  config: ConfigService,
  former: FormerModule,
  path: string,
  form: Form,
): Operation =>
  defineOperation({
    ...facts,
    id: `communications.former.${former.name}.change.${form}`,
    method: form === 'bare' ? 'PUT' : 'PATCH',
    path,
    aliases: [{ method: form === 'bare' ? 'PATCH' : 'PUT', path }],
    idempotency: false,
    about: { config: 'inside' },
    input: { body: Type.Object({ config: Type.Optional(View) }, { additionalProperties: true }) },
    output: Answer,
    summary: `Change the configuration of ${former.name}`,
    description:
      'A view of that of communications, for clients of the 0.16 line. A provider that is named is switched on unless `active` says otherwise; masked secrets stay as they are.',
    auditChanges: ({ body }: Pick<DecodedInput, 'body'>) => ({
      body: config.maskPatch('communications', { [former.name]: patchOf(former, body as Tree) }),
    }),
    handler: async (context: OperationContext, { body }) => {
      const changed = await config.change(
        context.caller,
        'communications',
        { [former.name]: patchOf(former, body) },
        { onDecided: (differences) => context.audited({ changes: { differences } }) },
      );
      return answered(viewOf(former, changed.config), form);
    },
  });

const answered = (view: Tree, form: Form): Tree => (form === 'bare' ? view : { config: view });

/** The channel as it is, with the chosen provider under the names of the 0.16 line. */
function viewOf(former: FormerModule, config: Tree): Tree {
  const channel = config[former.name];
  if (!isTree(channel)) return {};
  const provider = String(channel[former.providerKey] ?? '');
  return { ...channel, provider, [provider]: former.read(channel, provider) };
}

/** Throws 400 for a provider that is not known. */
function patchOf(former: FormerModule, body: Tree): Tree {
  const given = isTree(body.config) ? body.config : body;
  const { provider: named, config: _wrapped, ...rest } = given;
  const provider = providerOf(former, named ?? rest[former.providerKey]);
  const blocks = Object.entries(rest).filter(
    ([key, value]) => isTree(value) && nameOf(former, key) !== undefined,
  );
  const others = Object.fromEntries(
    Object.entries(rest).filter(([key]) => !blocks.some(([name]) => name === key)),
  );
  const placed = blocks.map(([key, value]) => {
    const name = nameOf(former, key) ?? key;
    const { block, channel = {} } = former.block(name, value as Tree);
    return merged(former.place(name, block), channel);
  });
  // A whole service account may stand where its block would.
  const account = former.name === 'pushNotifications' && 'project_id' in rest;
  const patch = account
    ? { active: rest.active, firebase: former.block('firebase', rest).block }
    : placed.reduce(merged, others);
  const chosen = account ? (provider ?? 'firebase') : provider;
  if (chosen === undefined) return withoutGaps(patch);
  return withoutGaps({ active: true, ...withoutGaps(patch), [former.providerKey]: chosen });
}

const withoutGaps = (tree: Tree): Tree =>
  Object.fromEntries(Object.entries(tree).filter(([, value]) => value !== undefined));

const nameOf = ({ providers }: FormerModule, key: string): string | undefined =>
  providers.find((name) => name === key) ??
  providers.find((name) => name === otherNames.get(key.toLowerCase()));

function providerOf(former: FormerModule, named: unknown): string | undefined {
  if (named === undefined) return undefined;
  const provider = typeof named === 'string' ? nameOf(former, named) : undefined;
  if (provider === undefined)
    throw invalid('provider', 'enum', `must be one of ${former.providers.join(', ')}`);
  return provider;
}

function merged(one: Tree, other: Tree): Tree {
  const result: Record<string, unknown> = { ...one };
  for (const [key, value] of Object.entries(other))
    result[key] = isTree(value) && isTree(result[key]) ? merged(result[key], value) : value;
  return result;
}
