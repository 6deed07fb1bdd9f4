// What the test launcher needs of the command's insides, built beside it.
export { messageOf } from './errors.ts';
export { findOrInstallBrowser } from './find-browser.ts';
export { ensureGatewayVenv, ensureTiktokenFolder, missingForGateway } from './gateway-venv.ts';
