/** Templates that mail providers keep: written there, and read back. */
import type { CommunicationsConfig } from '../../config.ts';
import { messageErrors } from '../../errors.ts';
import {
  type CallProvider,
  createCaller,
  DeliveryError,
  limitsOf,
  listAt,
  type ProviderAnswer,
  textAt,
  words,
} from '../providers/outcome.ts';
import { mailgunRequest, sendgridRequest } from './http-providers.ts';
import { callSes } from './ses.ts';

export interface ProviderTemplate {
  /** The provider's own name for it. */
  readonly id: string;
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly createdAt: string | null;
}

export type TemplateTexts = Pick<ProviderTemplate, 'name' | 'subject' | 'body'>;

/** Throws PROVIDER_REFUSED and PROVIDER_AUTH. */
export interface ProviderTemplates {
  list(): Promise<readonly ProviderTemplate[]>;
  /** Nothing where the provider has it no more. */
  get(id: string): Promise<ProviderTemplate | undefined>;
  /** Makes it, or with an id gives it these texts; answers the id. */
  save(texts: TemplateTexts, id: string | undefined): Promise<string>;
  /** Deletes it, where it is there. */
  remove(id: string): Promise<void>;
}

/** Those of the provider that is set, with the name of its transport. */
export interface SetProvider extends ProviderTemplates {
  readonly provider: string;
}

/** Templates of a provider that are listed at most. */
const max = 200;

/** Those of the provider that is set. Throws PROVIDER_TEMPLATES_UNSUPPORTED. */
export function createProviderTemplates(config: () => CommunicationsConfig): () => SetProvider {
  const settings = () => config().email.transportSettings;
  const callOf = (name: string): CallProvider => asked(createCaller(name, limitsOf(config)));
  const known: ReadonlyMap<string, ProviderTemplates> = new Map([
    [
      'mailgun',
      mailgun(callOf('mailgun'), () => ({
        settings: settings().mailgun,
        sendingDomain: config().email.sendingDomain,
      })),
    ],
    ['sendgrid', sendgrid(callOf('sendgrid'), () => settings().sendgrid)],
    ['amazonSes', ses(callOf('amazonSes'), () => settings().amazonSes)],
  ]);
  return () => {
    const { active, transport } = config().email;
    if (!active) throw messageErrors.CHANNEL_DISABLED();
    const templates = known.get(transport);
    if (!templates) throw messageErrors.PROVIDER_TEMPLATES_UNSUPPORTED();
    return { ...templates, provider: transport };
  };
}

/** A provider that cannot be reached is told to the operator who waits. */
const asked =
  (call: CallProvider): CallProvider =>
  async (url, request) => {
    try {
      return await call(url, request);
    } catch (error) {
      if (error instanceof DeliveryError)
        throw messageErrors.PROVIDER_REFUSED({ message: error.message, cause: error });
      throw error;
    }
  };

/** What is not there needs no deleting. */
const gone = (answer: ProviderAnswer): void =>
  void (answer.status === 404 || requireSuccess(answer));

/** The answer when it is a yes; nothing for a 404 where that may be. */
function requireSuccess(answer: ProviderAnswer): ProviderAnswer {
  if (answer.ok) return answer;
  if (answer.status === 401 || answer.status === 403)
    throw messageErrors.PROVIDER_AUTH({ detail: words(answer.text) });
  throw messageErrors.PROVIDER_REFUSED({
    message: `The provider refused it: ${words(`${answer.status} ${answer.text}`)}`,
  });
}

const each = async <T>(
  items: readonly T[],
  read: (item: T) => Promise<ProviderTemplate | undefined>,
): Promise<readonly ProviderTemplate[]> => {
  const found: ProviderTemplate[] = [];
  for (const item of items.slice(0, max)) {
    const template = await read(item);
    if (template) found.push(template);
  }
  return found;
};

const form = { 'content-type': 'application/x-www-form-urlencoded' };

/** Mailgun's templates have no subject: it stands in the description. */
function mailgun(
  call: CallProvider,
  settings: () => Parameters<typeof mailgunRequest>[0],
): ProviderTemplates {
  const send = (rest: string, method = 'GET', fields?: Record<string, string>) => {
    const { url, headers } = mailgunRequest(settings(), rest);
    return fields === undefined
      ? call(url, { method, headers })
      : call(url, {
          method,
          headers: { ...headers, ...form },
          body: new URLSearchParams(fields).toString(),
        });
  };
  const get = async (id: string): Promise<ProviderTemplate | undefined> => {
    const answer = await send(`templates/${encodeURIComponent(id)}?active=yes`);
    if (answer.status === 404) return undefined;
    const { template } = requireSuccess(answer).json();
    const version: unknown = Reflect.get((template ?? {}) as object, 'version');
    return {
      id,
      name: textAt(template, 'name') ?? id,
      subject: textAt(template, 'description') ?? '',
      body: textAt(version, 'template') ?? '',
      createdAt: textAt(template, 'createdAt') ?? null,
    };
  };
  return {
    get,
    list: async () =>
      each(
        listAt(requireSuccess(await send(`templates?limit=${max}`)).json(), 'items'),
        async (item) => get(textAt(item, 'name') ?? ''),
      ),
    async save({ name, subject, body }, id) {
      // Mailgun wants small letters without spaces.
      const own = id ?? name.toLowerCase().replace(/[^a-z0-9._~-]+/g, '-');
      if (id === undefined)
        requireSuccess(
          await send('templates', 'POST', {
            name: own,
            description: subject,
            template: body,
            tag: 'initial',
            engine: 'handlebars',
          }),
        );
      else {
        const at = `templates/${encodeURIComponent(own)}`;
        const tag = `v${Date.now()}`;
        requireSuccess(
          await send(`${at}/versions`, 'POST', { template: body, tag, active: 'yes' }),
        );
        requireSuccess(await send(at, 'PUT', { description: subject }));
      }
      return own;
    },
    remove: async (id) => gone(await send(`templates/${encodeURIComponent(id)}`, 'DELETE')),
  };
}

function sendgrid(
  call: CallProvider,
  settings: () => Parameters<typeof sendgridRequest>[0],
): ProviderTemplates {
  const send = (rest: string, method = 'GET', body?: object) => {
    const { url, headers } = sendgridRequest(settings(), rest);
    return call(url, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  };
  const get = async (id: string): Promise<ProviderTemplate | undefined> => {
    const answer = await send(`templates/${encodeURIComponent(id)}`);
    if (answer.status === 404) return undefined;
    const template = requireSuccess(answer).json();
    const versions = listAt(template, 'versions');
    const version = versions.find((one) => textAt(one, 'active') === '1') ?? versions[0];
    return {
      id,
      name: textAt(template, 'name') ?? '',
      subject: textAt(version, 'subject') ?? '',
      body: textAt(version, 'html_content') ?? '',
      createdAt: textAt(template, 'updated_at') ?? null,
    };
  };
  return {
    get,
    list: async () =>
      each(
        listAt(
          requireSuccess(
            await send(`templates?generations=legacy,dynamic&page_size=${max}`),
          ).json(),
          'result',
        ),
        async (item) => get(textAt(item, 'id') ?? ''),
      ),
    async save({ name, subject, body }, id) {
      const own =
        id ??
        textAt(
          requireSuccess(await send('templates', 'POST', { name, generation: 'dynamic' })).json(),
          'id',
        );
      if (own === undefined)
        throw messageErrors.PROVIDER_REFUSED({ message: 'The provider answered no id' });
      requireSuccess(
        await send(`templates/${encodeURIComponent(own)}/versions`, 'POST', {
          name,
          subject,
          html_content: body,
          active: 1,
        }),
      );
      return own;
    },
    remove: async (id) => gone(await send(`templates/${encodeURIComponent(id)}`, 'DELETE')),
  };
}

function ses(call: CallProvider, settings: () => Parameters<typeof callSes>[1]): ProviderTemplates {
  const get = async (id: string): Promise<ProviderTemplate | undefined> => {
    const answer = await callSes(call, settings(), {
      method: 'GET',
      path: `templates/${encodeURIComponent(id)}`,
    });
    if (answer.status === 404) return undefined;
    const { TemplateContent } = requireSuccess(answer).json();
    return {
      id,
      name: id,
      subject: textAt(TemplateContent, 'Subject') ?? '',
      body: textAt(TemplateContent, 'Html') ?? textAt(TemplateContent, 'Text') ?? '',
      createdAt: null,
    };
  };
  return {
    get,
    async list() {
      const answer = await callSes(call, settings(), {
        method: 'GET',
        path: 'templates?PageSize=100',
      });
      return each(listAt(requireSuccess(answer).json(), 'TemplatesMetadata'), async (item) =>
        get(textAt(item, 'TemplateName') ?? ''),
      );
    },
    async save({ name, subject, body }, id) {
      const own = id ?? name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, 64);
      const content = { TemplateContent: { Subject: subject, Html: body } };
      requireSuccess(
        await callSes(
          call,
          settings(),
          id === undefined
            ? { path: 'templates', body: { TemplateName: own, ...content } }
            : { method: 'PUT', path: `templates/${encodeURIComponent(own)}`, body: content },
        ),
      );
      return own;
    },
    async remove(id) {
      const path = `templates/${encodeURIComponent(id)}`;
      gone(await callSes(call, settings(), { method: 'DELETE', path }));
    },
  };
}
