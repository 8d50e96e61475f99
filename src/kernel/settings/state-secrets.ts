/** Values for the secrets of state documents, one variable each. */

const STATE_SECRET = 'SECRET_';

export const stateSecretsOf = (
  environment: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      name.startsWith(STATE_SECRET) && value ? [[name, value] as const] : [],
    ),
  );

/** For `--help`, beside the variables that are settings. */
export const stateSecretHelp = {
  name: `${STATE_SECRET}<MODULE>_<PATH>`,
  description: 'Value of a secret that an imported state document refers to',
  documentedDefault: '',
};
