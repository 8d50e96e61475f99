/** Puts together what holds back whoever tries to get into accounts that are not his. */
import type { Kernel } from '../../../kernel/kernel.ts';
import type { Messages } from '../../communications/index.ts';
import type { AuthenticationConfig } from '../config.ts';
import { createDevices } from './devices.ts';
import { createLoginGuard } from './login-guard.ts';
import type { MailRequests } from './mail-requests.ts';
import type { Notices } from './notices.ts';

interface Foundation extends Pick<Kernel, 'database' | 'durableLimits' | 'metrics'> {
  readonly requests: MailRequests;
  readonly notices: Notices;
  readonly messages: Pick<Messages, 'sendEmail'>;
  readonly config: () => AuthenticationConfig;
}

export function assembleProtection(foundation: Foundation) {
  const { requests, messages, config } = foundation;
  const devices = createDevices(foundation);
  requests.handle('manyFailures', (transaction, { userId, email }) =>
    messages.sendEmail(transaction, { to: email, userId, template: 'ManyFailures', variables: {} }),
  );
  const warnOwner = (email: string) => requests.request('manyFailures', email);
  return { devices, loginGuard: createLoginGuard({ ...foundation, devices, lockout: () => config().lockout, warnOwner }) };
}
