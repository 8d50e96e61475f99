/** Which operations want a captcha. They are the same operations with one more question before them. */
import Type from 'typebox';
import { anonymousApp } from '../../../kernel/identity.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { type RouterService, routerErrors } from '../../router/index.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';

type CaptchaConfig = AuthenticationConfig['captcha'];
type Route = keyof CaptchaConfig['routes'];

/** What an operation counts as; any of them that is switched on asks. */
export const captchaRoutes: ReadonlyMap<string, readonly Route[]> = new Map<
  string,
  readonly Route[]
>([
  ['authentication.local.login', ['login']],
  ['authentication.username.login', ['login']],
  ['authentication.magicLink.request', ['login']],
  ['authentication.emailCode.request', ['login']],
  ['authentication.phone.request', ['login', 'register']],
  ['authentication.metamask.nonce', ['login', 'register']],
  ['authentication.local.register', ['register']],
  ['authentication.local.registerAnonymous', ['register']],
  ['authentication.external.init', ['oAuth2']],
  ['authentication.external.initNative', ['oAuth2']],
  ['authentication.external.google', ['oAuth2']],
  ['authentication.external.facebook', ['oAuth2']],
]);

/** What decides about captchas. */
export type CaptchaCheck = Pick<RouterService, 'captcha' | 'platformOf'>;

export const withCaptcha = (
  operations: readonly Operation[],
  config: CaptchaConfig,
  router: CaptchaCheck,
): readonly Operation[] =>
  config.enabled
    ? operations.map((operation) => {
        const asks =
          captchaRoutes.get(operation.id)?.some((route) => config.routes[route]) === true;
        return asks ? asking(operation, config, router) : operation;
      })
    : operations;

function asking(operation: Operation, config: CaptchaConfig, router: CaptchaCheck): Operation {
  return {
    ...operation,
    input: withToken(operation.input),
    errors: [
      ...(operation.errors ?? []),
      authErrors.CAPTCHA_REQUIRED,
      authErrors.CAPTCHA_FAILED,
      routerErrors.CAPTCHA_UNAVAILABLE,
    ],
    async handler(context, input) {
      if (await asks(context, config, router)) {
        const verdict = await router.captcha.check(tokenOf(input), context.address);
        if (verdict === 'missing') throw authErrors.CAPTCHA_REQUIRED();
        if (verdict === 'failed') throw authErrors.CAPTCHA_FAILED();
      }
      return operation.handler(context, input);
    },
  };
}

/** Apps have proven who they are; whoever has not may be anybody. */
async function asks(
  { clientId }: OperationContext,
  { acceptablePlatform }: CaptchaConfig,
  router: CaptchaCheck,
): Promise<boolean> {
  if (clientId === undefined || clientId === anonymousApp) return true;
  const platform = await router.platformOf(clientId);
  if (platform === 'WEB') return acceptablePlatform.web;
  return platform === 'ANDROID' ? acceptablePlatform.android : platform === undefined;
}

const Token = Type.Optional(
  Type.String({ maxLength: 8192, description: 'What the captcha on the page answered' }),
);

function withToken({ body, query, headers, ...rest }: Operation['input']): Operation['input'] {
  return {
    ...rest,
    ...(Type.IsObject(body)
      ? { body: Type.Object({ ...body.properties, captchaToken: Token }) }
      : {}),
    query: Type.Object({ ...query?.properties, captchaToken: Token }),
    headers: Type.Object({ ...headers?.properties, captchatoken: Token }),
  };
}

function tokenOf({ body, query, headers }: DecodedInput): string | undefined {
  const inBody: unknown =
    typeof body === 'object' && body !== null ? Reflect.get(body, 'captchaToken') : undefined;
  const given = [inBody, query.captchaToken, headers.captchatoken].find(
    (value) => value !== undefined && value !== '',
  );
  return typeof given === 'string' ? given : undefined;
}
